"""A record as one line of text, safe for a terminal."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

import click

from ottla.cli.support.options import is_terminal
from ottla.cli.support.records import Formatter
from ottla.client.consumer import ConsumerRecord

NO_TIMESTAMP = "-"


def pretty_formatter() -> Formatter:
    """Return the formatter for terminals; coloured, unless NO_COLOR is set."""
    colours = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")

    def write(record: ConsumerRecord) -> bytes:
        line = pretty(record)
        return (line if colours else click.unstyle(line)).encode() + b"\n"

    return write


def pretty(record: ConsumerRecord) -> str:
    """Return `partition:offset  time  key  value  headers`; control characters are escaped."""
    parts = [click.style(f"{record.partition}:{record.offset}", dim=True)]
    parts.append(click.style(_moment(record.timestamp), dim=True))
    if record.key is not None:
        parts.append(click.style(_text(record.key), fg="cyan"))
    parts.append(click.style("null", dim=True) if record.value is None else _text(record.value))
    if record.headers:
        shown = ", ".join(f"{_clean(name)}={_text(value or b'')}" for name, value in record.headers)
        parts.append(click.style(f"[{shown}]", dim=True))
    return "  ".join(parts)


def _moment(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return NO_TIMESTAMP
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{timestamp_ms % 1000:03d}"


def _text(data: bytes) -> str:
    try:
        return _clean(data.decode())
    except UnicodeDecodeError:
        return "".join(chr(each) if 32 <= each < 127 else f"\\x{each:02x}" for each in data)


def _clean(text: str) -> str:
    """Return text without control sequences that could move the cursor or change colours."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
