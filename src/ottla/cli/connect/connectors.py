"""The commands on connectors: list, create, describe, pause, restart, delete, offsets and the others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from ottla.cli.connect.scaffold import init
from ottla.cli.support.http_client import HttpService
from ottla.cli.support.options import confirm, format_option
from ottla.cli.support.output import count, echo_err, print_json, print_table
from ottla.cli.support.problems import Problem
from ottla.http.json_client import path_of

__all__ = ["WORKER", "ask", "path_of", "url_option"]

NOT_FOUND, CONFLICT = 404, 409


def _refusal(status: int, body: Any) -> Problem:
    message = str(body["message"])
    hints = ["list them:  ottla connect list"] if status == NOT_FOUND else []
    if status == CONFLICT and "already exists" in message:
        hints = ["change it with:  ottla connect create NAME --replace ..."]
    if "STOPPED state" in message:
        hints = ["stop it with:  ottla connect stop NAME"]
    return Problem(f"{message} ({status})", *hints)


WORKER = HttpService(
    "Connect worker",
    "http://127.0.0.1:8083",
    "OTTLA_CONNECT",
    "ottla connect serve",
    _refusal,
    "A worker; Kafka Connect's, too.",
    timeout_s=120,
)
url_option = WORKER.options
ask = WORKER.ask


INVALID = 3
"""What `validate` exits with if a config has errors."""


@click.command("list")
@format_option
@url_option
def list_connectors(output_format: str, url: str) -> None:
    """List the connectors with their states.

    \b
    ottla connect list
    """
    found = ask(url, "GET", path_of("connectors", expand=["status", "info"]))
    if output_format == "json":
        print_json(found)
        return
    rows = []
    for name, each in sorted(found.items()):
        status = each["status"]
        tasks = [task["state"] for task in status["tasks"]]
        states = ", ".join(f"{tasks.count(one)} {one}" for one in dict.fromkeys(tasks)) or "none"
        kind = each["info"]["config"].get("connector.class", "").rpartition(".")[2]
        rows.append((name, status["type"], kind, status["connector"]["state"], states))
    print_table(("NAME", "TYPE", "CLASS", "STATE", "TASKS"), rows)
    echo_err(count(len(rows), "connector"))


def _config_of(pairs: tuple[str, ...], file: Path | None) -> dict[str, Any]:
    """Return the config of a file (JSON, or properties) and of KEY=VALUE arguments."""
    found: dict[str, Any] = {}
    if file is not None:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        if text.lstrip().startswith("{"):
            try:
                found = json.loads(text)
            except ValueError as error:
                raise Problem(f"{file} is not JSON: {error}") from None
            if isinstance(found.get("config"), dict):
                found = (
                    {"name": found.get("name"), **found["config"]} if found.get("name") else found["config"]
                )
        else:
            from ottla.common.config.properties import parse_properties

            found = dict(parse_properties(text, str(file)))
    for each in pairs:
        key, equals, value = each.partition("=")
        if not equals:
            raise click.UsageError(f"{each!r} is not KEY=VALUE")
        found[key] = value
    return found


_file_option = click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The config as JSON or properties; - is standard input.",
)


@click.command()
@click.argument("name", required=False)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@_file_option
@click.option("--replace", is_flag=True, help="Change it if it exists.")
@click.option(
    "--state",
    type=click.Choice(["running", "paused", "stopped"]),
    help="The state to begin with.  [default: running]",
)
@url_option
def create(
    name: str | None, pairs: tuple[str, ...], file: Path | None, replace: bool, state: str | None, url: str
) -> None:
    """Create a connector, or change its config with --replace.

    \b
    ottla connect create x connector.class=DatagenSource topic=orders
    ottla connect create --file orders.json
    """
    if name is not None and "=" in name:
        pairs, name = (name, *pairs), None
    config = _config_of(pairs, file)
    name = name or config.get("name")
    if not name:
        raise click.UsageError("the connector has no name: ottla connect create NAME KEY=VALUE...")
    if replace:
        ask(url, "PUT", path_of("connectors", name, "config"), config)
    else:
        body: dict[str, Any] = {"name": name, "config": config}
        if state is not None:
            body["initial_state"] = state.upper()
        ask(url, "POST", "/connectors", body)
    echo_err(f"{name} is {'set' if replace else 'created'}; see:  ottla connect describe {name}")


@click.command()
@click.argument("name")
@format_option
@url_option
def describe(name: str, output_format: str, url: str) -> None:
    """Show config, states, topics and offsets of a connector.

    \b
    ottla connect describe orders
    """
    found = {
        "info": ask(url, "GET", path_of("connectors", name)),
        "status": ask(url, "GET", path_of("connectors", name, "status")),
        "topics": ask(url, "GET", path_of("connectors", name, "topics"))[name]["topics"],
        "offsets": ask(url, "GET", path_of("connectors", name, "offsets"))["offsets"],
    }
    if output_format == "json":
        print_json(found)
        return
    status = found["status"]
    click.echo(
        f"{name}: {status['type']}, {status['connector']['state']} at {status['connector']['worker_id']}"
    )
    print_table(
        ("TASK", "STATE", "WORKER"),
        [(str(each["id"]), each["state"], each["worker_id"]) for each in status["tasks"]],
    )
    click.echo(f"\ntopics: {', '.join(found['topics']) or 'none yet'}\n")
    print_table(("KEY", "VALUE"), sorted(found["info"]["config"].items()))
    _print_offsets(found["offsets"])
    for each in [status["connector"], *status["tasks"]]:
        if each.get("trace"):
            click.echo(f"\n{'task ' + str(each['id']) if 'id' in each else name}: {each['trace'].strip()}")


def _print_offsets(offsets: list[dict[str, Any]]) -> None:
    if offsets:
        click.echo()
        print_table(
            ("PARTITION", "OFFSET"),
            [(json.dumps(each["partition"]), json.dumps(each["offset"])) for each in offsets],
        )


def _simple(name: str, method: str, done: str, doc: str) -> click.Command:
    @click.command(name, help=f"{doc}\n\n\b\nottla connect {name} orders")
    @click.argument("connector", metavar="NAME")
    @url_option
    def command(connector: str, url: str) -> None:
        ask(url, method, path_of("connectors", connector, name))
        echo_err(f"{connector} {done}")

    return command


pause = _simple("pause", "PUT", "is paused", "Pause a connector; its tasks keep their offsets.")
resume = _simple("resume", "PUT", "runs again", "Resume a connector that is paused or stopped.")
stop = _simple("stop", "PUT", "is stopped", "Stop a connector: its offsets can be changed.")


@click.command()
@click.argument("name")
@click.option("--task", type=int, metavar="N", help="Only this task.")
@click.option("--only-failed", is_flag=True, help="Only what has failed.")
@url_option
def restart(name: str, task: int | None, only_failed: bool, url: str) -> None:
    """Restart a connector and its tasks.

    \b
    ottla connect restart orders --only-failed
    ottla connect restart orders --task 0
    """
    if task is not None:
        ask(url, "POST", path_of("connectors", name, "tasks", task, "restart"))
    else:
        query = {"includeTasks": True, "onlyFailed": only_failed}
        ask(url, "POST", path_of("connectors", name, "restart", **query))
    echo_err(f"{name} is restarted")


@click.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@url_option
def delete(name: str, dry_run: bool, yes: bool, url: str) -> None:
    """Delete a connector; its offsets and topics stay.

    \b
    ottla connect delete orders
    """
    info = ask(url, "GET", path_of("connectors", name))
    if dry_run:
        echo_err(f"would delete {name} ({info['type']}) with {count(len(info['tasks']), 'task')}")
        return
    confirm(f"Delete the connector {name}?", yes)
    ask(url, "DELETE", path_of("connectors", name))
    echo_err(f"{name} is deleted")


@click.command(short_help="Show, set or delete the offsets of a connector.")
@click.argument("name")
@click.option("--set", "changes", multiple=True, metavar="PARTITION=OFFSET", help="Both as JSON objects.")
@click.option("--reset", is_flag=True, help="Delete all offsets: it begins again.")
@format_option
@url_option
def offsets(name: str, changes: tuple[str, ...], reset: bool, output_format: str, url: str) -> None:
    """Show, set or delete the offsets of a connector; to change them, stop it first.

    \b
    ottla connect offsets orders
    ottla connect offsets orders --set '{"task":0}={"count":500}'
    ottla connect offsets orders --reset
    """
    path = path_of("connectors", name, "offsets")
    if reset:
        echo_err(ask(url, "DELETE", path)["message"])
    elif changes:
        pairs = [_offset(each) for each in changes]
        echo_err(ask(url, "PATCH", path, {"offsets": pairs})["message"])
    else:
        found = ask(url, "GET", path)
        if output_format == "json":
            print_json(found)
        else:
            _print_offsets(found["offsets"])


def _offset(text: str) -> dict[str, Any]:
    partition, _, offset = text.partition("}=")
    try:
        return {"partition": json.loads(partition + "}"), "offset": json.loads(offset)}
    except ValueError:
        raise click.UsageError(f"--set: {text!r} is not {{...}}={{...}} or {{...}}=null") from None


@click.command()
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@_file_option
@format_option
@url_option
def validate(pairs: tuple[str, ...], file: Path | None, output_format: str, url: str) -> int:
    """Check a config; exits with 3 if it has errors.

    \b
    ottla connect validate name=orders connector.class=DatagenSource topic=orders
    """
    config = _config_of(pairs, file)
    kind = str(config.get("connector.class", ""))
    if not kind:
        raise click.UsageError("the config has no connector.class; see:  ottla connect plugins")
    found = ask(url, "PUT", path_of("connector-plugins", kind, "config", "validate"), config)
    if output_format == "json":
        print_json(found)
    else:
        for each in found["configs"]:
            for error in each["value"]["errors"]:
                click.echo(f"{each['value']['name']}: {error}")
        echo_err(count(found["error_count"], "error"))
    return INVALID if found["error_count"] else 0


@click.command(short_help="List the connectors that a worker can run.")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Converters, transforms and predicates, too.")
@format_option
@url_option
def plugins(name: str | None, everything: bool, output_format: str, url: str) -> None:
    """List the connectors that a worker can run, or the config keys of one.

    \b
    ottla connect plugins
    ottla connect plugins FileSink
    """
    if name is None:
        found = ask(url, "GET", path_of("connector-plugins", connectorsOnly="false" if everything else None))
        columns: tuple[str, ...] = ("class", "type", "version")
    else:
        found = ask(url, "GET", path_of("connector-plugins", name, "config"))
        columns = ("name", "type", "default_value", "documentation")
    if output_format == "json":
        print_json(found)
        return
    print_table(
        tuple(each.upper() for each in columns),
        [tuple("" if each.get(one) is None else str(each[one]) for one in columns) for each in found],
    )


COMMANDS: tuple[click.Command, ...] = (
    list_connectors,
    create,
    describe,
    pause,
    resume,
    restart,
    stop,
    delete,
    offsets,
    validate,
    plugins,
    init,
)
