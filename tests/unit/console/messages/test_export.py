"""Exported files: cells of CSV files, and messages that formats cannot hold as they are."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator

import pyarrow.parquet as pq
import pytest
from tests.unit.console.messages.making import made

from ottla.console.messages.export import CSV, JSON, KINDS, PARQUET, _inert, exported
from ottla.console.messages.search import Progress


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_no_spreadsheet_takes_a_cell_for_a_formula(start: str) -> None:
    cell = f"{start}HYPERLINK(...)"
    assert _inert(cell) == f"'{cell}"
    assert _inert("a" + cell) == "a" + cell


@pytest.mark.parametrize("timestamp", [0, 1_700_000_000_000, -62_200_000_000_000, 2**62])
@pytest.mark.parametrize("raw", [b"{}", rb'{"a": "\ud800"}', b'{"a": NaN}', b"[" * 900 + b"]" * 900])
async def test_whatever_was_written_is_exported(raw: bytes, timestamp: int) -> None:
    async def scan() -> AsyncIterator[Progress]:
        yield Progress(1, 1, 1, 1.0, [made(raw, raw, timestamp=timestamp)])

    files = {kind: b"".join([part async for part in exported(kind, scan())]) for kind in KINDS}
    header, row = csv.reader(io.StringIO(files[CSV].decode()))
    assert dict(zip(header, row, strict=True))["value"] == raw.decode()
    line = json.loads(files[JSON].decode(), parse_constant=pytest.fail)
    assert line["timestamp"] == timestamp
    table = pq.read_table(io.BytesIO(files[PARQUET]))
    assert table["value"].to_pylist() == [raw.decode()]
    assert table["timestamp"].cast("int64").to_pylist() == [timestamp]
