"""Runs this worker's tasks: compares what is wanted with what runs, and has the engine start and stop tasks.

One task of the event loop, `_reconcile`, does all of it; whatever changes wakes it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla import __version__
from ottla.client import ClientError, KafkaError
from ottla.client.admin.groups import Groups
from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.connect.config.providers import resolve, without_values
from ottla.connect.config.secrets import without_parts
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.engine.supervisor import EngineSupervisor
from ottla.connect.errors import ConnectError, RetriableError
from ottla.connect.group.protocol import CONNECTOR, TaskId
from ottla.connect.herder.cluster_state import STARTED, RestartRequest
from ottla.connect.herder.desired import RunningTask, connector_state, plan, wanted_tasks
from ottla.connect.herder.old_checkpoints import OldCheckpoints
from ottla.connect.herder.statuses import (
    FAILED,
    RESTARTING,
    RUNNING,
    UNASSIGNED,
    Status,
    status_key,
    topic_key,
)
from ottla.connect.sdk import SOURCE

if TYPE_CHECKING:
    from ottla.connect.herder.herder import Herder
    from ottla.connect.herder.topic_table import TopicTable


@dataclass
class TaskCounters:
    """Counted since the worker has first run the task."""

    records: int = 0
    batches: int = 0
    batch_ms: int = 0
    largest_batch: int = 0
    dead_letters: int = 0
    failures: int = 0
    last_error: str | None = None

    def add(self, report: dict[str, Any]) -> None:
        """Count a batch."""
        self.records += report["records"]
        self.batches += 1
        self.batch_ms += report["duration_ms"]
        self.largest_batch = max(self.largest_batch, report["records"])
        self.dead_letters = max(self.dead_letters, report["dead_letters"])


log = logging.getLogger(__name__)

WAKE_S = 0.5
MAX_RESTARTS = 10
STOP_WAIT_S = 60.0
PLACES_WAIT_S = 30.0
NO_TOPIC = "unknown topic"


class TaskRunner:
    """The tasks of one worker."""

    def __init__(self, herder: Herder, clock: Clock) -> None:
        self.counters: dict[TaskId, TaskCounters] = {}
        self.engine = EngineSupervisor(herder.options.engine, self._event)
        self._herder = herder
        self._clock = clock
        self._running: dict[TaskId, RunningTask] = {}
        self._restart_at_once: set[TaskId] = set()
        self._runs = 0
        self._wake = asyncio.Event()
        self._stopped = asyncio.Condition()
        self._records: asyncio.Queue[tuple[TopicTable, str, Any]] = asyncio.Queue()
        self._background: set[asyncio.Task[Any]] = set()
        self._commits: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        """Begin to work."""
        self._spawn(self._reconcile())
        self._spawn(self._write())

    async def stop(self) -> None:
        """Stop all tasks and the engine."""
        self.wake()
        try:
            async with asyncio.timeout(STOP_WAIT_S):
                await self.until_stopped(None)
                await self._records.join()
        except TimeoutError:
            log.warning("some tasks did not stop in time")
        await self.engine.close()
        for each in list(self._background):
            each.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def _spawn(self, work: Any, among: set[asyncio.Task[Any]] | None = None) -> None:
        task = asyncio.create_task(work)
        for each in (self._background, among):
            if each is not None:
                each.add(task)
                task.add_done_callback(each.discard)

    def wake(self) -> None:
        """Look again at what should run."""
        self._wake.set()

    async def until_stopped(self, tasks: set[TaskId] | None) -> None:
        """Wait until none of these tasks runs here; None: no task at all."""
        async with self._stopped:
            await self._stopped.wait_for(
                lambda: (
                    not any(
                        task.state in ("starting", "running", "stopping")
                        for what, task in self._running.items()
                        if tasks is None or what in tasks
                    )
                )
            )

    async def until_ended(self, name: str) -> None:
        """Wait until no task of a connector runs here, and what they have reported is stored."""
        await self.until_stopped({each for each in self._running if each.connector == name})
        await self._records.join()
        await asyncio.gather(*self._commits)

    @property
    def running(self) -> dict[TaskId, RunningTask]:
        """The tasks that run here, or have failed here."""
        return self._running

    def wall_ms(self) -> int:
        """Return the time."""
        return self._clock.wall_ms()

    # States.

    def put_status(self, what: TaskId, state: str, trace: str | None = None) -> None:
        """Write a state."""
        status = Status(
            state, self._herder.worker_id, self._herder.generation, trace, self._version(what.connector)
        )
        self._records.put_nowait((self._herder.status_table, status_key(what), status.as_record()))

    def _version(self, name: str) -> str | None:
        config = self._herder.state.connectors.get(name, {})
        try:
            return self._herder.plugins.connector(config.get("connector.class")).version or __version__
        except ConnectError:
            return None

    def report(self, name: str) -> None:
        """Write the state of a connector, if it is ours, and of its tasks that are paused."""
        herder = self._herder
        if name not in herder.state.connectors:
            return
        state = connector_state(herder.state, name)
        if TaskId(name, CONNECTOR) in herder.ours:
            self.put_status(TaskId(name, CONNECTOR), state)
        if state == "PAUSED":
            for each in herder.ours:
                if each.connector == name and each.task != CONNECTOR:
                    self.put_status(each, state)

    def unassigned(self, revoked: Iterable[TaskId]) -> None:
        """Write the states of what another worker will run."""
        for each in revoked:
            if each in self._herder.state.work():
                self.put_status(each, UNASSIGNED)

    def removed(self, name: str) -> None:
        """Delete the states of a connector and of tasks that there are not any more; the leader does."""
        if not self._herder.is_leader:
            return
        statuses, work = self._herder.statuses, self._herder.state.work()
        for what in [each for each in statuses.states if each.connector == name and each not in work]:
            self._records.put_nowait((self._herder.status_table, status_key(what), None))
        if name in self._herder.state.connectors:
            return
        for topic in sorted(statuses.topics.get(name, ())):
            self._records.put_nowait((self._herder.status_table, topic_key(topic, name), None))

    def restart(self, name: str, request: RestartRequest) -> None:
        """Restart a connector and its tasks, as far as they are ours."""
        states = self._herder.statuses.states
        for each in [one for one in self._herder.ours if one.connector == name]:
            status = states.get(each)
            if request.only_failed and (status is None or status.state != FAILED):
                continue
            if each.task == CONNECTOR:
                self.put_status(each, RESTARTING)
                self.report(name)
                if self._herder.is_leader:
                    self._herder.planner.due(name)
            elif request.include_tasks:
                self.restart_task(each)

    def restart_task(self, what: TaskId) -> None:
        """Restart a task that is ours."""
        if self._herder.state.targets.get(what.connector) != STARTED:
            return
        self.put_status(what, RESTARTING)
        task = self._running.get(what)
        if task is not None and task.state in ("failed", "waiting"):
            del self._running[what]
        elif task is not None:
            self._restart_at_once.add(what)
        self.wake()

    async def _write(self) -> None:
        """Write states and offsets in their order."""
        while True:
            table, key, value = await self._records.get()
            try:
                await table.put([(key, value)])
            except (KafkaError, ClientError) as error:
                log.warning("%s: %s cannot be written: %s", table.topic, key, error)
            finally:
                self._records.task_done()

    # Starting and stopping.

    async def _reconcile(self) -> None:
        while True:
            try:
                async with asyncio.timeout(WAKE_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._step()
            except Exception:
                log.exception("tasks cannot be started or stopped now")

    async def _step(self) -> None:
        herder = self._herder
        found = plan(herder.state, herder.ours, self._running, self._clock.mono_ms())
        for what in found.forget:
            self._running.pop(what, None)
        again, self._restart_at_once = self._restart_at_once, set()
        for what in {*found.stop, *(each for each in again if each in self._running)}:
            task = self._running[what]
            if task.state in ("starting", "running"):
                task.state = "stopping"
                await self.engine.stop_task(str(what), task.run)
        for what in found.start:
            await self._start(what)
        async with self._stopped:
            self._stopped.notify_all()

    async def _start(self, what: TaskId) -> None:
        herder = self._herder
        wanted = wanted_tasks(herder.state, [what]).get(what)
        if wanted is None:
            return
        self._runs += 1
        earlier = self._running.get(what)
        task = RunningTask(wanted, self._runs, failures=earlier.failures if earlier is not None else 0)
        self._running[what] = task
        self.counters.setdefault(what, TaskCounters())
        try:
            spec = await self._spec(what, task)
        except (ConnectError, KafkaError, ClientError, OSError) as error:
            passing = isinstance(error, ClientError | RetriableError)
            self._failed(what, task, f"{type(error).__name__}: {error}", passing)
            return
        self._spawn(self.engine.start_task(spec))

    async def _spec(self, what: TaskId, task: RunningTask) -> TaskSpec:
        herder, options = self._herder, self._herder.options
        config = resolve(task.config, options.providers)
        kind = herder.plugins.connector(config.get("connector.class"))
        group = config.get("consumer.override.group.id") or f"connect-{what.connector}"
        await self._settle_places(what, kind, group)
        if kind.kind == SOURCE:
            offsets: dict[str, Any] = dict(herder.offsets.get(what.connector, {}))
        else:
            offsets = await herder.planner.starting_offsets(config, group)
        if "batch.interval.ms" not in config and kind.interval_ms:
            config["batch.interval.ms"] = str(kind.interval_ms)
        return TaskSpec(
            what.connector,
            what.task,
            task.run,
            kind.kind,
            kind.class_name(),
            config,
            options.converters,
            options.client_config_of("producer" if kind.kind == SOURCE else "consumer"),
            options.client_config_of("producer"),
            str(options.checkpoints_of(what.connector)),
            offsets,
            group,
        )

    async def _settle_places(self, what: TaskId, kind: Any, group: str) -> None:
        """Have all places of a connector stored before a task begins at one of them."""
        try:
            async with asyncio.timeout(PLACES_WAIT_S):
                await self._records.join()
            await OldCheckpoints(self._herder, what.connector, kind, group).retire()
            async with asyncio.timeout(PLACES_WAIT_S):
                if kind.kind == SOURCE:
                    await self._herder.offset_table.read_to_end()
        except TimeoutError:
            raise RetriableError("the offsets of the connector cannot be read or stored now") from None

    # Events of the engine.

    def _event(self, event: dict[str, Any]) -> None:
        name, _, number = event["task"].rpartition("-")
        what = TaskId(name, int(number))
        task = self._running.get(what)
        if task is None or task.run != event["run"]:
            return
        kind = event["event"]
        if kind == "running" and task.state == "starting":
            task.state = "running"
            self.put_status(what, RUNNING)
        elif kind == "progress":
            self._progress(what, task, event["report"])
        elif kind == "stopped":
            if event["report"] is not None:
                self._progress(what, task, event["report"])
            del self._running[what]
        elif kind == "failed" and task.state == "stopping":
            del self._running[what]
        elif kind == "failed":
            self._failed(what, task, event["trace"], event["retriable"])
        self.wake()

    def _failed(self, what: TaskId, task: RunningTask, trace: str, retriable: bool) -> None:
        most = self._herder.options.number("task.restart.max", MAX_RESTARTS)
        trace = without_parts(without_values(trace, task.config, self._herder.options.providers))
        counters = self.counters[what]
        counters.failures += 1
        counters.last_error = trace.strip().splitlines()[-1] if trace.strip() else trace
        if NO_TOPIC in trace:
            most = sys.maxsize  # a sink waits for its topics
        if retriable and task.failed(self._clock.mono_ms(), most):
            log.warning("%s has failed, and will be restarted: %s", what, counters.last_error)
            self.put_status(what, RESTARTING, trace)
            return
        task.state = "failed"
        log.error("%s has failed: %s", what, counters.last_error)
        self.put_status(what, FAILED, trace)

    def _progress(self, what: TaskId, task: RunningTask, report: dict[str, Any]) -> None:
        counters = self.counters[what]
        if report["records"]:
            task.failures = 0
        counters.add(report)
        offsets = report.get("offsets") or {}
        kind = self._herder.plugins.connector(task.config.get("connector.class"))
        if kind.kind == SOURCE:
            self._keep_offsets(what.connector, offsets)
        else:
            self._spawn(self._commit(what, task, offsets), self._commits)
        self._keep_topics(what, kind.kind, task, offsets)

    def _keep_offsets(self, name: str, offsets: dict[str, Any]) -> None:
        stored = self._herder.offsets.get(name, {})
        for partition, offset in offsets.items():
            if stored.get(partition) != offset:
                key = json.dumps([name, json.loads(partition)], separators=(",", ":"))
                self._records.put_nowait((self._herder.offset_table, key, offset))

    async def _commit(self, what: TaskId, task: RunningTask, offsets: dict[str, Any]) -> None:
        """Commit a sink's progress to its group: the query itself does so one batch later."""
        group = task.config.get("consumer.override.group.id") or f"connect-{what.connector}"
        positions = {
            TopicPartition(topic, int(number)): offset
            for topic, partitions in offsets.items()
            if isinstance(partitions, dict) and not topic.startswith("@")
            for number, offset in partitions.items()
            if number.isdecimal() and isinstance(offset, int) and offset >= 0
        }
        try:
            if positions:
                await Groups(self._herder.cluster).commit(group, positions)
        except (KafkaError, ClientError) as error:
            log.warning("%s: the offsets cannot be committed to %s: %s", what, group, error)

    def _keep_topics(self, what: TaskId, kind: str, task: RunningTask, offsets: dict[str, Any]) -> None:
        """Note the topics that a connector uses."""
        if self._herder.options.setting("topic.tracking.enable", "true").lower() != "true":
            return
        if kind == SOURCE:
            made: Any = self._herder.plugins.connector(task.config["connector.class"])
            topics = set(made(what.connector, resolve(task.config, self._herder.options.providers)).topics())
        else:
            topics = {
                each
                for each, places in offsets.items()
                if isinstance(places, dict) and not each.startswith("@")
            }
        known = self._herder.statuses.topics.get(what.connector, set())
        for topic in sorted(topics - known):
            value = {
                "topic": {
                    "name": topic,
                    "connector": what.connector,
                    "task": what.task,
                    "discoverTimestamp": self._clock.wall_ms(),
                }
            }
            self._records.put_nowait((self._herder.status_table, topic_key(topic, what.connector), value))
