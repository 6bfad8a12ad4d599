"""`ottla registry subject|schema|compat`: what is in a registry."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ottla.cli.registry.client import ask, path_of, url_option
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import confirm, format_option
from ottla.cli.support.output import count, echo_err, print_json, print_table
from ottla.cli.support.problems import Problem

HELP = {"help_option_names": ["-h", "--help"]}
TYPES = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
INCOMPATIBLE = 3
"""What `compat check` exits with if a schema does not fit."""


@click.group(cls=LazyGroup, context_settings=HELP)
def subject() -> None:
    """List, describe and delete subjects.

    \b
    ottla registry subject list
    """


@click.group(cls=LazyGroup, context_settings=HELP)
def schema() -> None:
    """Register schemas, and look at them.

    \b
    ottla registry schema get 7
    """


@click.group(cls=LazyGroup, context_settings=HELP)
def compat() -> None:
    """Check whether a schema fits those before it.

    \b
    ottla registry compat check orders-value --file order.avsc
    """


@subject.command("list")
@click.option("--prefix", metavar="TEXT", help="Only those that begin with it.")
@click.option("--deleted", is_flag=True, help="Soft deleted ones too.")
@format_option
@url_option
def list_subjects(prefix: str | None, deleted: bool, output_format: str, url: str) -> None:
    """List the subjects.

    \b
    ottla registry subject list
    ottla registry subject list --prefix orders --format json
    """
    found = ask(url, "GET", path_of("subjects", subjectPrefix=prefix, deleted=deleted))
    if output_format == "json":
        print_json(found)
        return
    for name in found:
        click.echo(name)
    echo_err(count(len(found), "subject"))


@subject.command("describe", short_help="Show the versions of a subject.")
@click.argument("name", metavar="SUBJECT")
@click.option("--deleted", is_flag=True, help="Soft deleted versions too.")
@format_option
@url_option
def describe_subject(name: str, deleted: bool, output_format: str, url: str) -> None:
    """Show the versions of a subject, and the config and mode in effect for it.

    \b
    ottla registry subject describe orders-value
    """
    versions = ask(url, "GET", path_of("subjects", name, "versions", deleted=deleted))
    found = [
        ask(url, "GET", path_of("subjects", name, "versions", version, deleted=deleted))
        for version in versions
    ]
    config = ask(url, "GET", path_of("config", name, defaultToGlobal=True))
    mode = ask(url, "GET", path_of("mode", name, defaultToGlobal=True))
    if output_format == "json":
        print_json({"subject": name, "versions": found, "config": config, **mode})
        return
    rows = [
        (
            str(each["version"]),
            str(each["id"]),
            each.get("schemaType", "AVRO"),
            "deleted" if each.get("deleted") else "",
            _short(each["schema"]),
        )
        for each in found
    ]
    print_table(("version", "id", "type", "state", "schema"), rows, right=("version", "id"))
    echo_err(f"compatibility {config.get('compatibilityLevel')}, mode {mode.get('mode')}")


@subject.command("delete")
@click.argument("name", metavar="SUBJECT")
@click.option("--version", metavar="N", help="Only this version.")
@click.option("--permanent", is_flag=True, help="For good: after a soft delete, which can be undone.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
@url_option
def delete_subject(
    name: str,
    version: str | None,
    permanent: bool,
    dry_run: bool,
    yes: bool,
    output_format: str,
    url: str,
) -> None:
    """Delete a subject, or one version of it.

    \b
    ottla registry subject delete orders-value
    ottla registry subject delete orders-value --permanent --yes
    """
    what = name if version is None else f"version {version} of {name}"
    if dry_run:
        found = ask(url, "GET", path_of("subjects", name, "versions", deleted=permanent))
        chosen = (
            found[-1:] if version == "latest" else [each for each in found if version in (None, str(each))]
        )
        echo_err(f"would delete {count(len(chosen), 'version')}: {', '.join(map(str, chosen))}")
        return
    confirm(f"Delete {what}{' for good' if permanent else ''}?", yes)
    path = ("subjects", name) if version is None else ("subjects", name, "versions", version)
    found = ask(url, "DELETE", path_of(*path, permanent=permanent))
    if output_format == "json":
        print_json(found)
    else:
        versions = found if isinstance(found, list) else [found]
        echo_err(f"deleted {count(len(versions), 'version')}: {', '.join(map(str, versions))}")


def _file_options(command: Any) -> Any:
    for option in (
        click.option("-f", "--file", metavar="FILE", help="The schema; - or nothing reads standard input."),
        click.option(
            "--type",
            "schema_type",
            type=click.Choice(["AVRO", "JSON", "PROTOBUF"], case_sensitive=False),
            help="Its format.  [default: by the file's ending, else AVRO]",
        ),
        click.option(
            "--reference",
            "references",
            multiple=True,
            metavar="NAME=SUBJECT:VERSION",
            help="A schema that it uses; repeatable.",
        ),
        click.option("--normalize", is_flag=True, help="Write it in its normal form first."),
    ):
        command = option(command)
    return command


@schema.command("register", short_help="Register a schema under a subject.")
@click.argument("name", metavar="SUBJECT")
@_file_options
@format_option
@url_option
def register(
    name: str,
    file: str | None,
    schema_type: str | None,
    references: tuple[str, ...],
    normalize: bool,
    output_format: str,
    url: str,
) -> None:
    """Register a schema as the next version of a subject, or find it there.

    \b
    ottla registry schema register orders-value --file order.avsc
    ottla registry schema register user -f user.proto --reference a.proto=a:1
    """
    body = _body(file, schema_type, references)
    found = ask(url, "POST", path_of("subjects", name, "versions", normalize=normalize), body)
    if output_format == "json":
        print_json(found)
    else:
        click.echo(found["id"])
        echo_err(f"{name} version {found.get('version', '?')} has id {found['id']}")


@schema.command("get")
@click.argument("wanted", metavar="ID|SUBJECT")
@click.option("--version", metavar="N", default="latest", show_default=True, help="Of a subject.")
@format_option
@url_option
def get(wanted: str, version: str, output_format: str, url: str) -> None:
    """Show a schema, by its id or by subject and version.

    \b
    ottla registry schema get 7
    ottla registry schema get orders-value --version 2
    """
    path = ("schemas", "ids", wanted) if wanted.isdigit() else ("subjects", wanted, "versions", version)
    found = ask(url, "GET", path_of(*path))
    if output_format == "json":
        print_json(found)
    else:
        click.echo(found["schema"])


@schema.command("list")
@click.option("--prefix", metavar="TEXT", help="Only of subjects that begin with it.")
@click.option("--latest", is_flag=True, help="Only the latest version of each subject.")
@format_option
@url_option
def list_schemas(prefix: str | None, latest: bool, output_format: str, url: str) -> None:
    """List schemas.

    \b
    ottla registry schema list --latest
    """
    found = ask(url, "GET", path_of("schemas", subjectPrefix=prefix, latestOnly=latest))
    if output_format == "json":
        print_json(found)
        return
    rows = [
        (each["subject"], str(each["version"]), str(each["id"]), each.get("schemaType", "AVRO"))
        for each in found
    ]
    print_table(("subject", "version", "id", "type"), rows, right=("version", "id"))


@compat.command("check", short_help="Check whether a schema could be registered.")
@click.argument("name", metavar="SUBJECT")
@_file_options
@click.option("--version", metavar="N", help="Against this version only.  [default: as registering would]")
@format_option
@url_option
def check(
    name: str,
    file: str | None,
    schema_type: str | None,
    references: tuple[str, ...],
    normalize: bool,
    version: str | None,
    output_format: str,
    url: str,
) -> int:
    """Check whether a schema could be registered, and why not; exits with 3 if it could not.

    \b
    ottla registry compat check orders-value --file order.avsc
    """
    body = _body(file, schema_type, references)
    path = ["compatibility", "subjects", name, "versions", *([version] if version else [])]
    found = ask(url, "POST", path_of(*path, verbose=True, normalize=normalize), body)
    if output_format == "json":
        print_json(found)
    elif found["is_compatible"]:
        click.echo("compatible")
    else:
        click.echo("not compatible")
        for message in found.get("messages", ()):
            click.echo(f"  {message}")
    return 0 if found["is_compatible"] else INCOMPATIBLE


def _body(file: str | None, schema_type: str | None, references: tuple[str, ...]) -> dict[str, Any]:
    """Return the request that carries a schema from a file or standard input."""
    if file is None or file == "-":
        text, by_ending = sys.stdin.read(), "AVRO"
    else:
        path = Path(file)
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise Problem(f"{file} cannot be read: {error}") from None
        by_ending = TYPES.get(path.suffix, "AVRO")
    body: dict[str, Any] = {"schema": text, "schemaType": (schema_type or by_ending).upper()}
    if references:
        body["references"] = [_reference(each) for each in references]
    return body


def _reference(text: str) -> dict[str, Any]:
    name, equals, place = text.partition("=")
    subject_name, colon, version = place.rpartition(":")
    if not (name and equals and subject_name and colon and version.isdigit()):
        raise click.UsageError(f"--reference: {text!r} is not NAME=SUBJECT:VERSION")
    return {"name": name, "subject": subject_name, "version": int(version)}


def _short(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
