import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.records import (
    ConfigChanged,
    ConfigResource,
    MetadataError,
    MetadataRecord,
    ProducerIdsAllocated,
)
from ottla.metadata.store import MetadataEntry


async def write(path: Path, appends: list[list[MetadataRecord]]) -> list[MetadataEntry]:
    """Append to the file and return all that is in it."""
    store = EmbeddedStore(path)
    await store.open()
    try:
        epoch = await store.stand_for_election(await store.open_session(1))
        entries = await store.read(0)
        version = entries[-1].version if entries else 0
        for records in appends:
            version = await store.append(records, expected_version=version, controller_epoch=epoch)
        return await store.read(0)
    finally:
        await store.close()


async def read(path: Path) -> list[MetadataEntry]:
    store = EmbeddedStore(path)
    await store.open()
    try:
        return await store.read(0)
    finally:
        await store.close()


def configs(count: int) -> list[list[MetadataRecord]]:
    return [[ConfigChanged(ConfigResource.TOPIC, "orders", f"key{i}", "x" * 50)] for i in range(count)]


appends = st.lists(
    st.lists(st.builds(ProducerIdsAllocated, st.integers(0, 2**40)), min_size=1, max_size=3), max_size=4
)


@settings(max_examples=15, deadline=None)
@given(st.lists(appends, max_size=3))
def test_everything_survives_reopening(sittings: list[list[list[MetadataRecord]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "metadata.db")
        written: list[tuple[MetadataRecord, ...]] = []
        for sitting in sittings:
            entries = asyncio.run(write(path, sitting))
            written += map(tuple, sitting)
            assert [each.records for each in entries] == written
            assert [each.version for each in entries] == list(range(1, len(written) + 1))


async def test_epochs_grow_across_restarts(tmp_path: Path) -> None:
    epochs: list[tuple[int, int]] = []
    for _ in range(3):
        store = EmbeddedStore(tmp_path / "metadata.db")
        await store.open()
        session = await store.open_session(1)
        epochs.append((session.broker_epoch, await store.stand_for_election(session)))
        await store.close()
    assert epochs == [(1, 1), (2, 2), (3, 3)]


async def test_an_append_is_there_after_a_crash_of_the_process(tmp_path: Path) -> None:
    script = """
import asyncio, os, sys
from pathlib import Path
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.records import ProducerIdsAllocated

async def main():
    store = EmbeddedStore(Path(sys.argv[1]))
    await store.open()
    epoch = await store.stand_for_election(await store.open_session(1))
    for version in range(5):
        await store.append([ProducerIdsAllocated(version)], expected_version=version, controller_epoch=epoch)
    os._exit(9)

asyncio.run(main())
"""
    path = tmp_path / "metadata.db"
    crashed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script, str(path)], check=False)
    assert crashed.returncode == 9
    assert [each.records for each in await read(path)] == [(ProducerIdsAllocated(i),) for i in range(5)]


async def test_a_transaction_cut_off_by_a_crash_is_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    before = await write(path, configs(3))
    # A change big enough to reach the file before its commit, copied away as a crash would leave it.
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size=1")
    connection.execute("PRAGMA cache_spill=1")
    connection.execute("BEGIN")
    connection.execute("UPDATE entry SET records = ''")
    for version in range(10, 40):
        connection.execute("INSERT INTO entry VALUES (?, 1, 0, ?, 0)", (version, "x" * 5000))
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("metadata.db", "metadata.db-journal"):
        shutil.copy(tmp_path / name, crashed / name)
    connection.close()
    assert (crashed / "metadata.db").stat().st_size > 50_000
    assert await read(crashed / "metadata.db") == before


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_is_found_or_harmless(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    path = folder / "metadata.db"
    before = asyncio.run(write(path, configs(20)))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    with contextlib.suppress(MetadataError):
        assert asyncio.run(read(path)) == before
    shutil.rmtree(folder)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_file_cut_short_is_found_or_harmless(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path = folder / "metadata.db"
    before = asyncio.run(write(path, configs(20)))
    os.truncate(path, data.draw(st.integers(1, path.stat().st_size - 1)))
    with contextlib.suppress(MetadataError):
        assert asyncio.run(read(path)) == before
    shutil.rmtree(folder)


@pytest.mark.parametrize("size", [1, 100, 511, 4096, 5000, 8192])
async def test_a_file_cut_short_is_a_clear_error(tmp_path: Path, size: int) -> None:
    path = tmp_path / "metadata.db"
    await write(path, configs(20))
    os.truncate(path, size)
    with pytest.raises(MetadataError, match=r"is damaged.*Restore it from a backup"):
        await read(path)


async def test_a_file_without_bytes_is_a_start_that_did_not_get_far(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.touch()
    assert await read(path) == []


async def test_a_changed_entry_fails_its_checksum_and_the_error_names_it(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    await write(path, configs(3))
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE entry SET records = replace(records, 'orders', 'orderz') WHERE version = 2"
        )
    connection.close()
    with pytest.raises(MetadataError, match="the entry of version 2 fails its checksum"):
        await read(path)


async def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.write_text("these are my notes, and long enough to have been a header " * 20)
    with pytest.raises(MetadataError, match="is damaged"):
        await read(path)
    assert path.read_text().startswith("these are my notes")


async def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    with pytest.raises(MetadataError, match="not one of Ottla's"):
        await read(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]
    connection.close()


async def test_the_layout_of_a_newer_ottla_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    await write(path, configs(1))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=9")
    connection.close()
    with pytest.raises(MetadataError, match="has layout 9"):
        await read(path)


async def test_a_second_broker_on_the_same_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = EmbeddedStore(path)
    await store.open()
    try:
        with pytest.raises(MetadataError, match="in use by another process"):
            await read(path)
        # Nor may the attempt end this process's locks on the file, which keep other processes away.
        elsewhere = f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
        command = [sys.executable, "-c", elsewhere]
        other = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert "database is locked" in other.stderr
    finally:
        await store.close()
    assert await read(path) == []


async def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "metadata.db"
    with pytest.raises(MetadataError, match="unable to open") as raised:
        await read(path)
    assert str(path) in str(raised.value)


async def test_a_full_disk_fails_the_append_and_leaves_the_log_whole(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    before = await write(path, configs(2))
    store = EmbeddedStore(path)
    await store.open()
    try:
        epoch = await store.stand_for_election(await store.open_session(1))
        database = store._db._connection
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count={pages}")
        big = [ConfigChanged(ConfigResource.TOPIC, "orders", "key", "x" * 50_000)]
        with pytest.raises(MetadataError, match="full"):
            await store.append(big, expected_version=2, controller_epoch=epoch)
        assert await store.read(0) == before
        database.execute("PRAGMA max_page_count=1000000")
        assert await store.append(big, expected_version=2, controller_epoch=epoch) == 3
    finally:
        await store.close()


async def test_snapshots_keep_the_file_small(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = EmbeddedStore(path)
    await store.open()
    epoch = await store.stand_for_election(await store.open_session(1))
    version = 0
    for _ in range(10):
        for _ in range(20):
            record = ConfigChanged(ConfigResource.TOPIC, "orders", "key", "x" * 1000)
            version = await store.append([record], expected_version=version, controller_epoch=epoch)
        await store.compact(version, [record], controller_epoch=epoch)
    assert len(await store.read(0)) == 1
    await store.close()
    assert path.stat().st_size < 60_000
    assert [each.version for each in await read(path)] == [200]


async def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="not open"):
        await EmbeddedStore(tmp_path / "metadata.db").read(0)


async def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    """Also one of before: it has the keys of SCRAM users, and passwords in configs."""
    path = tmp_path / "metadata.db"
    await write(path, configs(1))
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    await write(path, configs(1))
    assert path.stat().st_mode & 0o777 == 0o600
