"""Run a pipeline: start flows as streaming queries, restart failed ones, recompute views, stop cleanly.

One loop, in the thread that called `run`: poll every flow, restart what is due, recompute what is due, write
the state file, sleep. The event `stopping` may be set by a signal handler or another thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, Protocol

from ottla.common.clock import Clock
from ottla.spark.pipelines.elements import Dataset, Flow, Kind
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.registry import Graph
from ottla.spark.pipelines.resolving import Resolver
from ottla.spark.pipelines.run import state as states
from ottla.spark.pipelines.run.progress import RESTARTING, STOPPED, WAITING, FlowProgress
from ottla.spark.pipelines.run.running_flow import MeasureLag, RunningFlow
from ottla.spark.pipelines.run.state import State
from ottla.spark.pipelines.run.storage import Storage
from ottla.spark.pipelines.run.user_errors import explain_error, is_jvm_gone, is_users
from ottla.spark.pipelines.run.writing import FlowWriter

# Materialized views: computed at the start, and recomputed when their inputs have changed.


class MaterializedViews:
    """Computes the materialized views of a pipeline."""

    def __init__(self, resolver: Resolver, clock: Clock, refresh_ms: int) -> None:
        self._resolver = resolver
        self._clock = clock
        self._refresh_ms = refresh_ms
        self._computed_ms: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._progress: dict[str, FlowProgress] = {}

    def changed(self, name: str, graph: Graph) -> None:
        """Note that a dataset has new rows: mark the views that read it as out of date."""
        for view in self._computed_ms:
            if name in graph.upstream_of(view):
                self._changed[view] = None

    def refresh_due(self, busy: set[str]) -> None:
        """Recompute the views that are out of date: at most every `refresh_ms`, but at once when no flow
        is running.
        """
        now_ms = self._clock.mono_ms()
        for name in list(self._changed):
            if not busy or now_ms - self._computed_ms[name] >= self._refresh_ms:
                self.compute(self._resolver.registry.datasets[name])

    def compute(self, dataset: Dataset) -> None:
        """Compute a view, and publish the result atomically."""
        assert dataset.kind == Kind.MATERIALIZED_VIEW
        flow = self._resolver.registry.flows_into(dataset.name)[0]
        before = self._progress.get(dataset.name, FlowProgress(flow.name, dataset.name))
        started_ms = self._clock.mono_ms()
        rows = self._resolver.again(flow)
        if rows.isStreaming:
            raise PipelineProblem(
                f"{dataset.name!r} is a stream, but a materialized view needs a batch query",
                "read with spark.read, or declare it with @dp.table",
                place=flow.place,
            )
        version = str(self._clock.wall_ms())
        try:
            self._write(dataset, rows, version)
        except Exception as error:
            raise explain_error(error, self._resolver.context, flow.place) from None
        self._resolver.storage.publish_view(dataset.name, version)
        now_ms = self._clock.mono_ms()
        self._computed_ms[dataset.name] = now_ms
        self._changed.pop(dataset.name, None)
        self._progress[dataset.name] = replace(
            before,
            state=WAITING,
            batch=(-1 if before.batch is None else before.batch) + 1,
            batch_ms=now_ms - started_ms,
        )

    def progress(self) -> list[FlowProgress]:
        """Return the progress of the views."""
        return list(self._progress.values())

    def _write(self, dataset: Dataset, rows: Any, version: str) -> None:
        writer = rows.write.format(dataset.format).options(**dataset.options).mode("overwrite")
        if dataset.partition_cols:
            writer = writer.partitionBy(*dataset.partition_cols)
        writer.save(str(self._resolver.storage.view(dataset.name) / version))


POLL_INTERVAL_MS = 250
WRITE_STATE_EVERY_MS = 1_000
STOP_POLL_MS = 5


class Observer(Protocol):
    """Displays the progress."""

    def batch(self, progress: FlowProgress) -> None:
        """A flow has finished a batch."""
        ...

    def update(self, flows: Sequence[FlowProgress]) -> None:
        """All flows, several times a second."""
        ...

    def message(self, text: str) -> None:
        """A message for the user."""
        ...


@dataclass(frozen=True)
class RunOptions:
    """How a pipeline is run."""

    available_now: bool = False
    """Process the available data, then end."""
    retries: int = 5
    """How often a flow is restarted without having finished a batch in between."""
    refresh_ms: int = 10_000
    """The minimum time between two recomputations of a materialized view."""
    stop_ms: int = 60_000
    """How long a batch may take to finish when the pipeline is stopped."""


class Runner:
    """Runs one pipeline."""

    def __init__(
        self,
        resolver: Resolver,
        state: State,
        options: RunOptions,
        observer: Observer,
        clock: Clock,
        *,
        stopping: Event | None = None,
        lag: MeasureLag = lambda offsets: None,
    ) -> None:
        self._resolver = resolver
        self._registry = resolver.registry
        self._storage: Storage = resolver.storage
        self._state = state
        self._options = options
        self._observer = observer
        self._clock = clock
        self._lag = lag
        self._stopping = stopping or Event()
        self._flows: dict[str, RunningFlow] = {}
        self._views = MaterializedViews(resolver, clock, options.refresh_ms)
        self._graph = Graph({})
        self._written_ms = 0
        self.is_to_restart = False
        """Whether `run` has ended because a restart was asked for."""
        self._writing = FlowWriter(
            resolver.spark, self._storage, resolver.topic_options, available_now=options.available_now
        )

    def run(self) -> None:
        """Run the pipeline until it is done or stopped; raise the error if it fails."""
        problem: PipelineProblem | None = None
        try:
            self._graph = self._resolver.resolve_all()
            waiting = [self._registry.datasets[name] for name in self._graph.order()]
            self._state.dead_letters = list(self._resolver.dead_letters)
            self._write_state(states.RUNNING)
            while not self._is_finished(waiting):
                if self._takes_restart():
                    break
                if self._is_paused():
                    self._observer.update(self._progress())
                else:
                    waiting = self._start_ready(waiting)
                    self._poll_all()
                    self._views.refresh_due(self._busy_names())
                if self._stopping.wait(POLL_INTERVAL_MS / 1000):
                    break
        except Exception as error:
            # A signal to the whole process group (systemd, a closed terminal) ends Spark's processes first.
            if not (is_jvm_gone(error) and self._stopping.is_set()):
                problem = explain_error(error, self._resolver.context)
        try:
            self._end()
        finally:
            self._state.error = str(problem) if problem else None
            self.is_to_restart = self.is_to_restart and problem is None and not self._stopping.is_set()
            self._write_state(self._last_state(problem))
        if problem is not None:
            raise problem

    def _last_state(self, problem: PipelineProblem | None) -> str:
        if problem is not None:
            return states.FAILED
        if self._stopping.is_set():
            return states.STOPPED
        return states.STARTING if self.is_to_restart else states.DONE

    def _takes_restart(self) -> bool:
        """Return whether a restart is asked for, and take the request."""
        if self._storage.restart_file.exists():
            self._storage.restart_file.unlink(missing_ok=True)
            self.is_to_restart = True
            self._observer.message("restarting after the current batches")
        return self.is_to_restart

    def _is_paused(self) -> bool:
        """Return whether the pipeline is paused; stop its queries after their batches, or start them."""
        wanted = self._storage.pause_file.exists()
        if wanted and self._state.state == states.RUNNING:
            self._stop_queries(states.RUNNING)
            for each in self._flows.values():
                if each.progress.state in (STOPPED, RESTARTING):
                    each.paused()
            self._write_state(states.PAUSED)
            self._observer.message(f"paused; to continue: ottla pipeline resume {self._state.name}")
        elif not wanted and self._state.state == states.PAUSED:
            self._write_state(states.RUNNING)
            for each in self._flows.values():
                if each.is_paused:
                    self._start(each.flow, each.target)
            self._observer.message("resumed")
        return wanted

    def _is_finished(self, waiting: Sequence[Dataset]) -> bool:
        return not waiting and all(running.is_over for running in self._flows.values())

    def _start_ready(self, waiting: list[Dataset]) -> list[Dataset]:
        """Start the flows whose inputs are ready; return the others."""
        later: list[Dataset] = []
        for dataset in waiting:
            if dataset.kind == Kind.TEMPORARY_VIEW:
                continue
            if not self._is_ready(dataset, later):
                later.append(dataset)
            elif dataset.kind == Kind.MATERIALIZED_VIEW:
                self._views.compute(dataset)
            else:
                for flow in self._registry.flows_into(dataset.name):
                    self._start(flow, dataset)
        return later

    def _is_ready(self, dataset: Dataset, later: Iterable[Dataset]) -> bool:
        """Return whether the inputs of a dataset exist; with available_now: whether they are complete."""
        upstream = self._graph.upstream_of(dataset.name)
        if any(other.name in upstream for other in later):
            return False
        if not self._options.available_now:
            return True
        before = [each for each in self._flows.values() if each.target.name in upstream]
        return all(each.is_over for each in before)

    def _start(self, flow: Flow, target: Dataset) -> None:
        running = self._flows.get(flow.name)
        if running is None:
            running = RunningFlow(flow, target, self._clock, self._options.retries, self._lag)
            self._flows[flow.name] = running
        try:
            rows = self._resolver.again(flow) if self._graph.reads.get(target.name) else None
            rows = self._resolver.dataframe(flow) if rows is None else rows
            running.started(self._writing.start(flow, target, rows))
        except Exception as error:
            self._failed(running, error)

    def _poll_all(self) -> None:
        now_ms = self._clock.mono_ms()
        for running in self._flows.values():
            if running.restart_at_ms is not None and now_ms >= running.restart_at_ms:
                self._start(running.flow, running.target)
            if running.query is None or running.is_over or running.restart_at_ms is not None:
                continue
            self._poll_flow(running)
        self._observer.update(self._progress())
        if now_ms - self._written_ms >= WRITE_STATE_EVERY_MS:
            self._write_state(self._state.state)

    def _poll_flow(self, running: RunningFlow) -> None:
        # Read the status first: later reports are handled in the next round.
        is_active = running.query.isActive
        reports = running.poll()
        if reports:  # The driver's endpoint serves the state, so a batch is there before it is reported.
            self._state.flows = [each.as_json() for each in self._progress()]
        for progress in reports:
            self._observer.batch(progress)
            if progress.batch_rows:
                self._views.changed(running.target.name, self._graph)
        if is_active:
            return
        error = running.query.exception()
        if error is not None:
            self._failed(running, error)
        else:
            running.ended(is_stopped=self._stopping.is_set())

    def _failed(self, running: RunningFlow, error: Exception) -> None:
        """Schedule a restart, or raise: an error in the user's code is permanent."""
        problem = explain_error(error, self._resolver.context, running.flow.place)
        is_final = is_users(error, self._resolver.context) or is_jvm_gone(error) or self._stopping.is_set()
        if not running.failed(problem.what, is_final=is_final):
            raise problem from None
        self._observer.message(f"{running.flow.name}: {problem.what}; it will be restarted")

    def _stop_queries(self, state: str = states.STOPPING) -> None:
        """Let running batches finish, then stop every query."""
        active = [each for each in self._flows.values() if each.query is not None and each.query.isActive]
        if not active:
            return
        self._write_state(state)
        deadline_ms = self._clock.mono_ms() + self._options.stop_ms
        marks = {each.flow.name: each.batches_done() for each in active}
        pause = Event()
        while active:
            for each in list(active):
                is_late = self._clock.mono_ms() >= deadline_ms
                if is_late or each.is_between_batches() or each.batches_done() != marks[each.flow.name]:
                    each.query.stop()
                    each.poll()
                    each.ended(is_stopped=True)
                    active.remove(each)
            pause.wait(STOP_POLL_MS / 1000)

    def _end(self) -> None:
        """Stop; if Spark is gone, its batches were interrupted, and the next run repeats them."""
        try:
            self._stop_queries()
        except Exception as error:
            if not is_jvm_gone(error):
                raise
            self._observer.message(explain_error(error, self._resolver.context).what)

    def _busy_names(self) -> set[str]:
        return {each.target.name for each in self._flows.values() if not each.is_over}

    def _progress(self) -> list[FlowProgress]:
        return [*(each.progress for each in self._flows.values()), *self._views.progress()]

    def _write_state(self, state: str) -> None:
        self._written_ms = self._clock.mono_ms()
        self._state.state = state
        self._state.updated_ms = self._clock.wall_ms()
        self._state.flows = [each.as_json() for each in self._progress()]
        self._state.write(self._storage)
        self._observer.update(self._progress())
