"""`ottla registry exporter`: keep the schemas of a registry in another one too."""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.registry.client import ask, path_of, url_option
from ottla.cli.support.options import confirm, format_option, key_values
from ottla.cli.support.output import echo_err, print_json, print_table

URL_KEY = "schema.registry.url"
HELP = {"help_option_names": ["-h", "--help"]}
CONTEXT_TYPES = ("AUTO", "CUSTOM", "NONE", "DEFAULT")

_name = click.argument("name", metavar="NAME")


@click.group(context_settings=HELP, short_help="Keep schemas in another registry too.")
def exporter() -> None:
    """Copy schemas to another registry, with ids and versions, and keep the copy up to date.

    \b
    ottla registry exporter list
    """


@exporter.command("list")
@format_option
@url_option
def list_exporters(output_format: str, url: str) -> None:
    """List exporters with their status.

    \b
    ottla registry exporter list
    """
    names = ask(url, "GET", path_of("exporters"))
    found = [ask(url, "GET", path_of("exporters", each, "status")) for each in names]
    if output_format == "json":
        print_json(found)
        return
    if not found:
        echo_err("no exporters yet; create one with:  ottla registry exporter create NAME --to URL")
        return
    rows = [(each["name"], each["state"], str(each["offset"]), each.get("trace", "-")) for each in found]
    print_table(("name", "state", "offset", "error"), rows, right=("offset",))


@exporter.command("create")
@_name
@click.option("--to", "target", metavar="URL", required=True, help="The other registry.")
@click.option("--subject", "subjects", multiple=True, help="A subject, or a prefix with *; repeatable.")
@click.option(
    "--context-type",
    type=click.Choice(CONTEXT_TYPES, case_sensitive=False),
    default="AUTO",
    show_default=True,
    help="AUTO: a context with the name of this cluster; NONE: the same names as here.",
)
@click.option("--context", metavar="NAME", help="The context of CUSTOM.")
@click.option("--rename", metavar="FORMAT", help="The name of a subject there, such as dr-${subject}.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", callback=key_values,
    help="How to reach it, such as basic.auth.user.info=NAME:PASSWORD.",
)  # fmt: skip
@url_option
def create_exporter(
    name: str,
    target: str,
    subjects: tuple[str, ...],
    context_type: str,
    context: str | None,
    rename: str | None,
    settings: dict[str, str],
    url: str,
) -> None:
    """Create an exporter, and start copying.

    \b
    ottla registry exporter create dr --to http://other:8081
    ottla registry exporter create eu --to http://eu:8081 --context-type NONE
    """
    body: dict[str, Any] = {"name": name, "contextType": context_type.upper()}
    body["config"] = {URL_KEY: target, **settings}
    if subjects:
        body["subjects"] = list(subjects)
    if context is not None:
        body |= {"context": context, "contextType": "CUSTOM"}
    if rename is not None:
        body["subjectRenameFormat"] = rename
    ask(url, "POST", path_of("exporters"), body)
    echo_err(f"{name}: copies to {target}; see:  ottla registry exporter list")


@exporter.command("describe")
@_name
@url_option
def describe_exporter(name: str, url: str) -> None:
    """Show an exporter and its status, as JSON.

    \b
    ottla registry exporter describe dr
    """
    found = ask(url, "GET", path_of("exporters", name))
    print_json({**found, "status": ask(url, "GET", path_of("exporters", name, "status"))})


@exporter.command("delete")
@_name
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@url_option
def delete_exporter(name: str, yes: bool, dry_run: bool, url: str) -> None:
    """Delete an exporter; keep copied schemas.

    \b
    ottla registry exporter delete dr --yes
    """
    if dry_run:
        ask(url, "GET", path_of("exporters", name))
        echo_err(f"{name}: would be deleted; the copied schemas are kept")
        return
    confirm(f"Delete the exporter {name}? What it has copied stays.", yes)
    ask(url, "DELETE", path_of("exporters", name))
    echo_err(f"{name}: deleted; the copied schemas are kept")


def _order(order: str, what: str, done: str) -> click.Command:
    @exporter.command(order, help=f"{what}\n\n\b\nottla registry exporter {order} dr")
    @_name
    @url_option
    def command(name: str, url: str) -> None:
        ask(url, "PUT", path_of("exporters", name, order))
        echo_err(f"{name}: {done}")

    return command


pause = _order("pause", "Pause an exporter.", "paused")
resume = _order("resume", "Resume a paused exporter.", "resumed")
reset = _order(
    "reset",
    "Reset a paused exporter: copy all again.",
    "copies everything again once it is resumed",
)
