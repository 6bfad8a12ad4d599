"""The engine: tasks that are stopped while they start, and an engine that dies while a task is stopped."""

from __future__ import annotations

import asyncio
import io
import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.client_options import ClientOptions
from ottla.connect.engine import process
from ottla.connect.engine.process import Engine
from ottla.connect.engine.queries import is_overtaken
from ottla.connect.engine.sink_batches import in_order
from ottla.connect.engine.source_stream import SourceTask, TopicWriter, counted_records
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.engine.supervisor import EngineOptions, EngineSupervisor
from ottla.connect.options import WorkerOptions

SPEC = TaskSpec("orders", 0, 1, "source", "Any", {})


class SlowQuery:
    """A query whose start takes as long as the test wants."""

    may_start = threading.Event()
    is_starting = threading.Event()
    running: list[str]

    def __init__(self, _spark: Any, _plugins: Any, _path: Any, spec: TaskSpec) -> None:
        self.spec = spec

    def start(self) -> None:
        self.is_starting.set()
        assert self.may_start.wait(10)
        self.running.append(self.spec.id)

    def stop(self) -> None:
        self.running.remove(self.spec.id)


class Commands:
    """The start of a task, and its stop before it has started."""

    def __iter__(self) -> Any:
        yield json.dumps({"start": asdict(SPEC)})
        assert SlowQuery.is_starting.wait(10)
        yield json.dumps({"stop": SPEC.id, "run": SPEC.run})


def test_a_task_that_is_stopped_while_it_starts_does_not_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    SlowQuery.running = []
    monkeypatch.setattr(process, "TaskQuery", SlowQuery)
    monkeypatch.setattr(Engine, "_watch", lambda _: None)
    events = io.StringIO()
    engine = Engine({"plugin_path": []}, events)
    engine._spark = AnySpark()
    # One thread for the start, and one for the stop, which ends before the start in the wrong order.
    engine._pool = ThreadPoolExecutor(2)
    engine.serve(Commands())  # type: ignore[arg-type]
    late = threading.Timer(0.1, SlowQuery.may_start.set)
    late.start()
    engine._pool.shutdown(wait=True)
    assert SlowQuery.running == []
    assert [json.loads(each)["event"] for each in events.getvalue().splitlines()] == ["running", "stopped"]


class AnySpark:
    """Takes any call."""

    def __getattr__(self, _: str) -> AnySpark:
        return self

    def __call__(self, *_: object) -> None:
        return None


class DeadProcess:
    """An engine that ends before it has answered."""

    returncode: int | None = None
    pid = 1
    stdin = None


async def test_a_task_that_was_being_stopped_is_reported_when_the_engine_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[dict[str, Any]] = []
    engine = EngineSupervisor(EngineOptions(), events.append)
    dead: Any = DeadProcess()

    async def launch() -> None:
        engine._process = dead
        engine._ready.set()

    monkeypatch.setattr(engine, "_launch", launch)
    await engine.start_task(SPEC)
    await engine.stop_task(SPEC.id, SPEC.run)
    assert events == []
    dead.returncode = 3
    engine._ended(dead)
    assert [(each["event"], each["task"], each["run"]) for each in events] == [("failed", "orders-0", 1)]


async def test_a_stopped_task_is_not_reported_again() -> None:
    events: list[dict[str, Any]] = []
    engine = EngineSupervisor(EngineOptions(), events.append)
    dead: Any = DeadProcess()
    engine._process, engine._tasks = dead, {SPEC.id: SPEC.run}
    engine._forward({"event": "stopped", "task": SPEC.id, "run": SPEC.run, "report": None})
    engine._ended(dead)
    await asyncio.sleep(0)
    assert [each["event"] for each in events] == ["stopped"]


@pytest.mark.parametrize("name", ["..", ".", "../../etc", "a/b", "/etc", "orders", "my orders"])
def test_the_checkpoints_of_a_connector_are_below_those_of_its_group(name: str, tmp_path: Path) -> None:
    options = WorkerOptions(ClientOptions(), {}, storage=tmp_path)
    folder = options.checkpoints_of(name)
    assert folder.resolve() == folder
    assert folder.parent == tmp_path / options.group_id


@pytest.mark.parametrize(
    ("committed", "is_old"),
    [
        ({}, False),
        ({"orders": {"0": 10, "1": 4}}, False),
        ({"orders": {"0": 11, "1": 5}}, False),
        ({"orders": {"0": 12, "1": 5}}, True),
        ({"orders": {"0": -2, "7": 99}, "other": {"0": 99}}, False),
    ],
)
def test_a_checkpoint_that_other_tasks_have_overtaken_is_not_used_again(
    tmp_path: Path, committed: dict[str, Any], is_old: bool
) -> None:
    (tmp_path / "metadata").write_text('{"id":"q"}')
    (tmp_path / "offsets").mkdir()
    assert not is_overtaken(tmp_path, committed)
    for number, offset in enumerate((10, 11)):
        text = f'v1\n{{}}\n{{"orders":{{"0":{offset},"1":5}}}}'
        (tmp_path / "offsets" / str(number)).write_text(text)
    assert is_overtaken(tmp_path, committed) == is_old


def test_the_partitions_that_share_a_task_are_written_one_after_the_other() -> None:
    import pyarrow as pa

    def batch(rows: list[tuple[str, int, int]]) -> Any:
        names = ("topic", "partition", "offset")
        return pa.RecordBatch.from_pydict(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))

    def rows(batches: Any) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for each in batches for row in each.to_pylist()]

    turns = [batch([("b", 0, 5), ("a", 1, 7)]), batch([("b", 0, 6), ("a", 1, 8), ("a", 0, 9)])]
    wanted = [("a", 0, 9), ("a", 1, 7), ("a", 1, 8), ("b", 0, 5), ("b", 0, 6)]
    assert rows(in_order(iter(turns))) == wanted
    assert rows(in_order(iter([batch([("a", 0, 1)]), batch([("a", 0, 3)])]))) == [("a", 0, 1), ("a", 0, 3)]
    assert rows(in_order(iter(()))) == []


class Topics:
    """Stands for the exactly-once sink."""

    def write(self, batches: Any) -> Any:
        self.values = [row["value"] for batch in batches for row in batch.to_pylist()]
        return SimpleNamespace(rows=len(self.values))

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        pass


def test_the_task_that_writes_reads_its_parts_and_each_batch_is_counted_once(tmp_path: Path) -> None:
    import pyarrow as pa

    text = {f"{each}.converter": "StringConverter" for each in ("key", "value")}
    config = {"topic": "t", "iterations": "5", **text}
    spec = TaskSpec("orders", 0, 1, "source", "ottla.connect.connectors.datagen.DatagenSource", config)
    topics, file = Topics(), tmp_path / "count"
    writer = TopicWriter(SourceTask(spec.to_json(), []), topics, str(file))  # type: ignore[arg-type]
    parts = pa.RecordBatch.from_pydict({"part": [pickle.dumps(each) for each in ((0, 2), (2, 5))]})
    message = writer.write(iter([parts]))
    assert [json.loads(each)["order_id"] for each in topics.values] == [0, 1, 2, 3, 4]
    for batch in (0, 0, 1):
        writer.commit([message, None], batch)
    assert counted_records(file) == (10, 1)
