"""A Connect worker in a thread of the test; with Spark, or with an engine that only says it runs."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.waiting import wait_until

from ottla.client.client_options import ClientOptions
from ottla.connect.engine.spec import BASE_FILE, TaskSpec
from ottla.connect.engine.supervisor import EngineOptions
from ottla.connect.options import WorkerOptions
from ottla.connect.server import ConnectWorker
from ottla.http.security import HttpSecurity


class Answer(NamedTuple):
    """What a worker answered."""

    status: int
    body: Any


def call(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    authorization: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Send a request as scripts do."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = Request(url + path, data, {"content-type": "application/json"}, method=method)
    if authorization is not None:
        request.add_header("authorization", authorization)
    try:
        with urlopen(request, timeout=60, context=tls) as answer:
            content, status = answer.read(), answer.status
    except HTTPError as error:
        with error:
            content, status = error.read(), error.code
    try:
        return Answer(status, json.loads(content) if content else None)
    except ValueError:
        return Answer(status, content)  # Kafka Connect answers some mistakes in HTML


def made_checkpoint(folder: Path, ends: list[Any], done: int, base: Any = None) -> Path:
    """Write what Spark writes: the planned ends of batches, and which are done."""
    for each in ("offsets", "commits"):
        (folder / each).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q"}')
    if base is not None:
        (folder / BASE_FILE).write_text(json.dumps(base))
    for number, end in enumerate(ends):
        (folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(end)}")
    for number in range(done):
        (folder / "commits" / str(number)).write_text("v1\n{}")
    return folder


def _report(offsets: Any, records: int) -> dict[str, Any]:
    return {"batch": 0, "records": records, "duration_ms": 1, "offsets": offsets, "dead_letters": 0}


class IdleEngine:
    """An engine without Spark: tasks run at once, and `report` and `fail` make their events."""

    def __init__(self, options: EngineOptions, on_event: Callable[[dict[str, Any]], None]) -> None:
        self.specs: dict[str, TaskSpec] = {}
        self.starts: list[TaskSpec] = []
        self._on_event = on_event
        self.jvm_pid = self.pid = None
        self.may_stop = asyncio.Event()
        self.may_stop.set()
        self.last_reports: dict[str, Any] = {}
        """The offsets that a task reports when it is stopped."""

    async def start_task(self, spec: TaskSpec) -> None:
        self.specs[spec.id] = spec
        self.starts.append(spec)
        self._on_event({"event": "running", "task": spec.id, "run": spec.run})

    async def stop_task(self, task: str, run: int) -> None:
        if self.may_stop.is_set():
            self._stopped(task, run)
        else:
            asyncio.get_running_loop().create_task(self._stop_late(task, run))

    async def _stop_late(self, task: str, run: int) -> None:
        await self.may_stop.wait()
        self._stopped(task, run)

    def _stopped(self, task: str, run: int) -> None:
        self.specs.pop(task, None)
        last = self.last_reports.pop(task, None)
        report = None if last is None else _report(last, 1)
        self._on_event({"event": "stopped", "task": task, "run": run, "report": report})

    def report(self, task: str, offsets: Any, records: int = 1) -> None:
        report = _report(offsets, records)
        self._on_event({"event": "progress", "task": task, "run": self.specs[task].run, "report": report})

    def fail(self, task: str, trace: str, *, retriable: bool) -> None:
        event = {"event": "failed", "task": task, "run": self.specs[task].run, "trace": trace}
        self._on_event({**event, "retriable": retriable})

    async def close(self) -> None:
        self.specs.clear()


class RunningWorker:
    """A worker at a port of its own."""

    def __init__(
        self,
        bootstrap: str,
        storage: Path,
        *,
        plugins: tuple[str, ...] = (),
        spark: dict[str, str] | None = None,
        client: dict[str, str] | None = None,
        security: HttpSecurity | None = None,
        **settings: str,
    ) -> None:
        quick = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "100"}
        given = {key.replace("_", "."): value for key, value in settings.items()}
        self._options = WorkerOptions(
            ClientOptions.of(**{"bootstrap.servers": bootstrap, **(client or {})}),
            {
                f"kafka.{key}": value
                for key, value in {"bootstrap.servers": bootstrap, **(client or {})}.items()
            },
            port=0,
            storage=storage,
            engine=EngineOptions("local[2]", spark or {}, plugins, storage / "engine.log"),
            settings=quick | given,
        )
        self._security = security
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="connect worker")

    def __enter__(self) -> Self:
        self._thread.start()
        self.worker = self.do(self._make())
        self.url = self.worker.url
        return self

    async def _make(self) -> ConnectWorker:
        self._options.storage.mkdir(parents=True, exist_ok=True)
        worker = ConnectWorker(self._options, security=self._security)
        await worker.start()
        return worker

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.do(self.worker.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, work: Any) -> Any:
        """Run a coroutine on the worker's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def soon(self, work: Callable[..., Any], *arguments: Any, **more: Any) -> None:
        """Call a function on the worker's loop."""
        self._loop.call_soon_threadsafe(lambda: work(*arguments, **more))

    @property
    def engine(self) -> Any:
        return self.worker.herder.runner.engine

    def __call__(self, method: str, path: str, body: Any = None) -> Answer:
        return call(self.url, method, path, body)

    def states(self, name: str) -> list[str]:
        """The states of a connector and its tasks."""
        answer = self("GET", f"/connectors/{name}/status")
        if answer.status != 200:
            return []
        return [answer.body["connector"]["state"], *(each["state"] for each in answer.body["tasks"])]

    def wait_for(self, name: str, *states: str, within_s: float = 30.0) -> None:
        """Wait until a connector and its tasks have these states."""
        try:
            wait_until(lambda: self.states(name) == list(states), f"{name} to be {states}", within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self('GET', f'/connectors/{name}/status')}") from None
