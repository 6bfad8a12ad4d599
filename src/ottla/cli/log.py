"""`ottla log dump`: what is in the files of a log, and what is wrong with them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.log_view import as_json, as_text
from ottla.cli.output import count, talk
from ottla.cli.problems import Problem

if TYPE_CHECKING:
    from ottla.log.dump.segment_dump import Report


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def log() -> None:
    """Look into the log files of a broker."""


@log.command(short_help="Show and check what is in a log file.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--deep", is_flag=True, help="The records of each batch too.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: one object per line.",
)
def dump(files: tuple[Path, ...], deep: bool, output_format: str) -> int:
    """Show what a log file holds: batches, index entries, aborted transactions, producers, epochs.

    FILE is a .log, .index, .timeindex, .txnindex or .snapshot file, or leader-epoch-checkpoint. Checks
    checksums, offsets and index entries; exits with 1 if anything is wrong. Only reads: safe while
    the broker runs.

    \b
    ottla log dump ottla-data/orders-0/00000000000000000000.log --deep
    """
    problems = 0
    for file in files:
        if len(files) > 1 and output_format == "text":
            click.echo(click.style(f"{file}:", bold=True))
        problems += _dump(file, deep, output_format == "json")
    return 1 if problems else 0


def _dump(file: Path, deep: bool, is_json: bool) -> int:
    """Print one file and return how many problems it has."""
    found = problems = 0
    for report in _reports(file, deep):
        found += 1
        problems += report.problem is not None
        if is_json:
            click.echo(json.dumps({"file": str(file), **as_json(report)}, ensure_ascii=False))
        else:
            click.echo(as_text(report))
    talk(f"{file.name}: {count(found, 'item')}, {count(problems, 'problem') if problems else 'no problems'}")
    return problems


def _reports(file: Path, deep: bool) -> Iterator[Report]:
    from ottla.log.dump.segment_dump import NotALogFile
    from ottla.log.dump.segment_dump import dump as read

    if file.is_dir():
        raise Problem(f"{file} is a directory: name a file in it", *_names_in(file))
    try:
        yield from _refusing_strangers(file, read(file, deep=deep))
    except NotALogFile as error:
        raise Problem(str(error), *_names_in(file.parent)) from None
    except FileNotFoundError:
        raise Problem(f"there is no file {file}", *_near(file)) from None
    except OSError as error:
        raise Problem(f"{file} cannot be read: {error.strerror}") from None


def _refusing_strangers(file: Path, reports: Iterator[Report]) -> Iterator[Report]:
    """Pass reports on, unless a file of another name is one gap: then it is some other program's log."""
    from ottla.log.dump.index_dump import Gap

    first = next(reports, None)
    if first is None:
        return
    is_one_gap = isinstance(first, Gap) and first.size_bytes == file.stat().st_size
    if is_one_gap and file.suffix == ".log" and not file.stem.isdigit():
        raise Problem(
            f"{file} does not look like a segment of a Kafka log: {first.problem}",
            "segments are called DATA/TOPIC-PARTITION/00000000000000000000.log",
        )
    yield first
    yield from reports


def _names_in(directory: Path) -> list[str]:
    """Return hints that name files worth dumping in a directory."""
    names = sorted(each for pattern in ("*.log", "*/*.log") for each in directory.glob(pattern))
    hints = [f"ottla log dump {each}" for each in names[:3]]
    return ["for example:", *(f"  {each}" for each in hints)] if hints else []


def _near(file: Path) -> list[str]:
    if not file.parent.is_dir():
        return [f"there is no directory {file.parent} either"]
    near = difflib.get_close_matches(file.name, [each.name for each in file.parent.iterdir()], n=1)
    return [f"did you mean: {file.parent / near[0]}?"] if near else _names_in(file.parent)
