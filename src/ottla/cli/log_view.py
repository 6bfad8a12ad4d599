"""How `ottla log dump` shows what it finds: lines that fit a terminal, or JSON."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from ottla.cli.records import bytes_as_json
from ottla.log.dump.index_dump import AbortedEntry, EpochEntry, Gap, OffsetEntry, ProducerEntry, TimeEntry
from ottla.log.dump.segment_dump import BatchReport, Report
from ottla.protocol.records.batch import BatchHeader
from ottla.protocol.records.compression import CODEC_NAMES
from ottla.protocol.records.records import Record

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_text(report: Report) -> str:
    """Return a report for people; several lines for a batch."""
    match report:
        case BatchReport():
            text = _batch_text(report)
        case Gap():
            text = f"at {report.position}: {report.size_bytes} bytes that are no batch or entry"
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
    """Return a report for programs."""
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
    """Return bytes as text that cannot disturb a terminal."""
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
