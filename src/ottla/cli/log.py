"""`ottla log dump`: show and check the contents of log files."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.output import count, echo_err
from ottla.cli.support.problems import Problem
from ottla.cli.support.records import bytes_as_json
from ottla.log.dump import (
    AbortedEntry,
    BatchReport,
    EpochEntry,
    Gap,
    OffsetEntry,
    ProducerEntry,
    Report,
    TimeEntry,
)
from ottla.protocol.records.batch import BatchHeader
from ottla.protocol.records.compression import CODEC_NAMES
from ottla.protocol.records.records import Record

# Reports as lines of text, or as JSON.

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_text(report: Report) -> str:
    """Return a report as text; several lines for a batch."""
    match report:
        case BatchReport():
            text = _batch_text(report)
        case Gap():
            text = f"at {report.position}: {report.size_bytes} bytes that are not a batch or an entry"
        case OffsetEntry():
            text = f"offset {report.offset} at {report.log_position}"
        case TimeEntry():
            text = f"{_time(report.timestamp)} ({report.timestamp}) offset {report.offset}"
        case AbortedEntry():
            text = (
                f"producer {report.producer_id} aborted offsets {report.first_offset}-{report.last_offset}, "
                f"last stable offset {report.last_stable_offset}"
            )
        case ProducerEntry():
            text = _producer_text(report)
        case EpochEntry():
            text = f"epoch {report.leader_epoch} starts at offset {report.start_offset}"
    if report.problem is not None:
        text += "\n  " + click.style(f"problem: {report.problem}", fg="red")
    return text


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as JSON."""
    if not isinstance(report, BatchReport):
        return {"kind": _kind(report), **dataclasses.asdict(report)}
    header = report.header
    fields = {
        "kind": "batch",
        "position": report.position,
        "size_bytes": header.size_bytes,
        **header._asdict(),
        "last_offset": header.last_offset,
        "codec": _codec(header),
        "timestamp_type": _timestamp_type(header),
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc_ok": report.crc_ok,
        "problem": report.problem,
    }
    if report.records is not None:
        fields["records"] = [_record_json(each) for each in report.records]
    return fields


def _batch_text(report: BatchReport) -> str:
    header = report.header
    crc = f"crc {header.crc:#010x} " + (click.style("ok", fg="green") if report.crc_ok else "WRONG")
    first = (
        f"at {report.position}: offsets {header.base_offset}-{header.last_offset}, "
        f"records {header.record_count}, bytes {header.size_bytes}, {crc}"
    )
    facts = [
        _codec(header) if header.codec else "uncompressed",
        f"{_timestamp_type(header)} {_time(header.max_timestamp)}",
    ]
    facts.append(f"epoch {header.leader_epoch}")
    if header.producer_id >= 0:
        facts.append(f"producer {header.producer_id}/{header.producer_epoch}")
        facts.append(f"sequence {header.base_sequence}-{header.last_sequence}")
    if header.is_transactional:
        facts.append("transactional")
    if header.is_control:
        facts.append("control")
    if header.has_delete_horizon:
        facts.append("delete horizon")
    lines = [first, "  " + ", ".join(facts)]
    lines += [f"  {_record_text(each)}" for each in report.records or ()]
    return "\n".join(lines)


def _producer_text(entry: ProducerEntry) -> str:
    text = (
        f"producer {entry.producer_id}/{entry.producer_epoch}: sequence {entry.last_sequence}, "
        f"offset {entry.last_offset}, {_time(entry.timestamp)}"
    )
    if entry.current_txn_first_offset >= 0:
        text += f", transaction open since offset {entry.current_txn_first_offset}"
    return text


def _record_text(record: Record) -> str:
    headers = "".join(f" {name}={_shown(value)}" for name, value in record.headers)
    text = f"{record.offset} {_time(record.timestamp)} key={_shown(record.key)} value={_shown(record.value)}"
    return f"{text} headers:{headers}" if headers else text


def _record_json(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_as_json(record.key),
        "value": bytes_as_json(record.value),
        "headers": [[name, bytes_as_json(value)] for name, value in record.headers],
    }


def _shown(data: bytes | None) -> str:
    """Return bytes as text that is safe for a terminal."""
    if data is None:
        return "null"
    text = data.decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _time(timestamp_ms: int) -> str:
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03}" if timestamp_ms >= 0 else "none"


def _codec(header: BatchHeader) -> str:
    return CODEC_NAMES[header.codec] if header.codec < len(CODEC_NAMES) else f"codec {header.codec}"


def _timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _kind(report: Report) -> str:
    return type(report).__name__.removesuffix("Entry").lower()


if TYPE_CHECKING:
    from ottla.log.dump import Report


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def log() -> None:
    """Inspect the log files of a broker.

    \b
    ottla log dump ottla-data/orders-0/00000000000000000000.log
    """


@log.command(short_help="Show and check the contents of a log file.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--deep", is_flag=True, help="Include the records of each batch.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: one object per line.",
)
def dump(files: tuple[Path, ...], deep: bool, output_format: str) -> int:
    """Show the contents of a log file: batches, index entries, aborted transactions, producers, epochs.

    FILE is a .log, .index, .timeindex, .txnindex or .snapshot file, or leader-epoch-checkpoint. Verifies
    checksums, offsets and index entries; exits with 1 if anything is wrong. Read-only: safe while the broker
    runs.

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
    echo_err(
        f"{file.name}: {count(found, 'item')}, {count(problems, 'problem') if problems else 'no problems'}"
    )
    return problems


def _reports(file: Path, deep: bool) -> Iterator[Report]:
    from ottla.log.dump import NotALogFile
    from ottla.log.dump import dump as read

    if file.is_dir():
        raise Problem(f"{file} is a directory: name a file in it", *_names_in(file))
    if not file.exists():
        raise Problem(f"there is no file {file}", *_near(file))
    try:
        yield from _check_is_segment(file, read(file, deep=deep))
    except NotALogFile as error:
        raise Problem(str(error), *_names_in(file.parent)) from None
    except OSError as error:
        raise Problem(f"cannot read {file}: {error.strerror}") from None


def _check_is_segment(file: Path, reports: Iterator[Report]) -> Iterator[Report]:
    """Pass reports on; raise Problem if a file with another name contains no batch: it is not a segment."""
    from ottla.log.dump import Gap

    first = next(reports, None)
    if first is None:
        return
    is_one_gap = isinstance(first, Gap) and first.size_bytes == file.stat().st_size
    if is_one_gap and file.suffix == ".log" and not file.stem.isdigit():
        raise Problem(
            f"{file} does not look like a segment of a Kafka log: {first.problem}",
            "segments are named DATA/TOPIC-PARTITION/00000000000000000000.log",
        )
    yield first
    yield from reports


def _names_in(directory: Path) -> list[str]:
    """Return hints that name the log files of a directory."""
    found = (each for pattern in ("*.log", "*/*.log") for each in directory.glob(pattern))
    names = sorted(each for each in found if each.stem.isdigit())
    hints = [f"ottla log dump {each}" for each in names[:3]]
    return ["for example:", *(f"  {each}" for each in hints)] if hints else []


def _near(file: Path) -> list[str]:
    if not file.parent.is_dir():
        return [f"there is no directory {file.parent} either"]
    near = difflib.get_close_matches(file.name, [each.name for each in file.parent.iterdir()], n=1)
    return [f"did you mean: {file.parent / near[0]}?"] if near else _names_in(file.parent)
