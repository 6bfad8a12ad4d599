"""`ottla registry export|import`: all schemas of a registry to a file and back, with ids and versions.

The file has one JSON object per line: first configs, then versions in the order of their ids, so that a
schema comes after those that it refers to. Source and target may be any registry with Confluent's API.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from ottla.cli.registry.client import RegistryProblem, ask, path_of, url_option
from ottla.cli.support.options import format_option
from ottla.cli.support.output import count, echo_err, print_json
from ottla.cli.support.problems import Problem

PAGE = 1_000
KEPT = ("subject", "version", "id", "schemaType", "references", "metadata", "ruleSet", "schema", "deleted")
NO_CONFIG = 40408


@click.command("export", short_help="Write all schemas to a file.")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--prefix", metavar="TEXT", help="Only subjects that begin with it.")
@click.option("--deleted", is_flag=True, help="Soft deleted versions too.")
@url_option
def export_command(file: str | None, prefix: str | None, deleted: bool, url: str) -> None:
    """Write all schemas to a file, one JSON object per line, or to standard output.

    \b
    ottla registry export schemas.jsonl
    """
    schemas = sorted(_all_schemas(url, prefix, deleted), key=lambda each: (each["id"], each["subject"]))
    subjects = sorted({each["subject"] for each in schemas})
    with ExitStack() as opened:
        out = sys.stdout if file in (None, "-") else opened.enter_context(Path(str(file)).open("w"))
        for name in subjects:
            config = _own_config(url, name)
            if config is not None:
                out.write(json.dumps({"subject": name, "config": config}) + "\n")
        for each in schemas:
            out.write(json.dumps({key: each[key] for key in KEPT if key in each}) + "\n")
    echo_err(f"exported {count(len(schemas), 'schema')} of {count(len(subjects), 'subject')}")


def _all_schemas(url: str, prefix: str | None, deleted: bool) -> Iterator[dict[str, Any]]:
    offset = 0
    while True:
        query = {"subjectPrefix": prefix or ":*:", "deleted": deleted, "offset": offset, "limit": PAGE}
        found = ask(url, "GET", path_of("schemas", **query))
        yield from found
        if len(found) < PAGE:
            return
        offset += len(found)


def _own_config(url: str, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = ask(url, "GET", path_of("config", name))
    except RegistryProblem as error:
        if error.code == NO_CONFIG:
            return None
        raise
    return found


@click.command("import", short_help="Register the schemas of an exported file.")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--force", is_flag=True, help="Into a registry that has schemas already.")
@format_option
@url_option
def import_command(file: str | None, force: bool, output_format: str, url: str) -> None:
    """Register all schemas of an exported file, with their ids and versions.

    The registry is in IMPORT mode during the import. Schemas that it already has are skipped.

    \b
    ottla registry import schemas.jsonl
    """
    lines = _read(file)
    before = ask(url, "GET", path_of("mode"))["mode"]
    ask(url, "PUT", path_of("mode", force=force), {"mode": "IMPORT"})
    try:
        imported = sum(_import(url, each) for each in lines)
    finally:
        ask(url, "PUT", path_of("mode", force=True), {"mode": before})
    if output_format == "json":
        print_json({"schemas": imported})
    else:
        echo_err(f"imported {count(imported, 'schema')}")


def _read(file: str | None) -> list[dict[str, Any]]:
    try:
        text = sys.stdin.read() if file in (None, "-") else Path(str(file)).read_text()
        found = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise Problem(f"{file or 'standard input'} cannot be read: {error}") from None
    if not all(isinstance(each, dict) and "subject" in each for each in found):
        raise Problem(f"{file or 'standard input'} is not an export: a line has no subject")
    return found


def _import(url: str, line: dict[str, Any]) -> int:
    name = line["subject"]
    if "config" in line:
        config = dict(line["config"])
        if "compatibilityLevel" in config:
            config["compatibility"] = config.pop("compatibilityLevel")
        ask(url, "PUT", path_of("config", name), config)
        return 0
    body = {key: line[key] for key in line if key not in ("subject", "deleted")}
    ask(url, "POST", path_of("subjects", name, "versions"), body)
    if line.get("deleted"):
        ask(url, "DELETE", path_of("subjects", name, "versions", line["version"]))
    return 1
