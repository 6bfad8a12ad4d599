"""The driver of a pipeline: one process that runs it, from its path to the last batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event
from types import CodeType
from typing import Any

from ottla.client import Admin, ClientError, KafkaError, TopicPartition
from ottla.client.offsets import LATEST
from ottla.common.clock import Clock
from ottla.common.near_names import did_you_mean
from ottla.spark.driver_endpoint import DriverEndpoint, listen_address
from ottla.spark.pipelines.loading import compile_project, load_project
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.project import Project
from ottla.spark.pipelines.registry import Registry
from ottla.spark.pipelines.resolving import Resolver
from ottla.spark.pipelines.run.runner import Observer, Runner, RunOptions
from ottla.spark.pipelines.run.shipping import forget_imported, ship_imported
from ottla.spark.pipelines.run.state import State, driver_lock, new_state
from ottla.spark.pipelines.run.storage import Storage
from ottla.spark.pipelines.run.user_errors import Context
from ottla.spark.query_progress import BOARD

# The lag of a flow: the end offsets of its topics against its position.

TIMEOUT_MS = 5_000
"""The lag is not worth a longer wait."""


class LagMeter:
    """Measures lag; connects when it is first called, and again after a failure."""

    def __init__(self, bootstrap: str, client: Mapping[str, str] | None = None) -> None:
        self._bootstrap = bootstrap
        self._client: dict[str, Any] = dict(client or {})
        if not {"default_api_timeout_ms", "default.api.timeout.ms"} & self._client.keys():
            self._client["default_api_timeout_ms"] = TIMEOUT_MS
        self._admin: Admin | None = None

    def __call__(self, offsets: dict[tuple[str, int], int]) -> int | None:
        """Return the lag in records, None if the cluster does not answer."""
        try:
            if self._admin is None:
                self._admin = Admin(self._bootstrap, **self._client)
            wanted = {TopicPartition(*partition): LATEST for partition in offsets}
            ends = self._admin.list_offsets(wanted, read_committed=True)
        except (ClientError, KafkaError, OSError, ValueError):
            self.close()
            return None
        return sum(max(0, ends[TopicPartition(*each)].offset - offset) for each, offset in offsets.items())

    def close(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None


Load = Callable[[Any], Registry]
"""Loads the registry of a pipeline, given a session."""


@dataclass(frozen=True)
class Job:
    """A pipeline to run, and its settings."""

    project: Project
    storage: Storage
    bootstrap: str = ""
    client: Mapping[str, str] = field(default_factory=dict)
    """Options of every client, by Kafka's names: connection and authentication."""
    master: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark settings; they override those of the spec file."""
    full_refresh: Sequence[str] = ()
    """Datasets to recompute; `*` for all."""
    options: RunOptions = field(default_factory=RunOptions)
    listen: str = ""
    """HOST:PORT of /metrics and /status; empty: not served."""

    @property
    def context(self) -> Context:
        """The user's files."""
        return Context(self.project.files)


def run(
    job: Job,
    spark_of: Callable[[Job], Any],
    observer: Observer,
    clock: Clock,
    stopping: Event,
    load: Load | None = None,
) -> None:
    """Run a pipeline until it is done or `stopping` is set; raise PipelineProblem if it fails.

    When a restart is asked for, its files are loaded again; Spark stays.
    """
    with ExitStack() as stack:
        stack.enter_context(driver_lock(job.storage, job.project.name))
        lag = stack.enter_context(_measuring(job))
        compiled: Mapping[Path, CodeType] | None = compile_project(job.project)
        state = new_state(
            job.project.name, str(job.project.folder), job.master, clock.wall_ms(), str(job.storage.data)
        )
        state.url = stack.enter_context(_serving(job, state))
        state.write(job.storage)
        job.storage.restart_file.unlink(missing_ok=True)
        spark = None
        while True:
            try:
                if spark is None:
                    observer.message("starting Spark")
                    spark = spark_of(job)
                else:
                    job, compiled = _reloaded(job), None
                registry = load(spark) if load is not None else load_project(job.project, spark, compiled)
                _prepare(job, spark, registry, observer)
            except Exception as error:
                state.state, state.error = "failed", str(error)
                state.write(job.storage)
                raise
            resolver = resolver_of(job, spark, registry)
            runner = Runner(resolver, state, job.options, observer, clock, stopping=stopping, lag=lag)
            runner.run()
            if not runner.is_to_restart:
                return
            state.started_ms = clock.wall_ms()


def _prepare(job: Job, spark: Any, registry: Registry, observer: Observer) -> None:
    """Ship modules, discard the state that is to be recomputed, and say what is ignored."""
    ship_imported(spark, job.project, job.storage.data)
    discard_state(job, registry)
    if job.project.spec.catalog or job.project.spec.database:
        observer.message(f"catalog and database are ignored: tables are files in {job.storage.data}")
    for orphan in orphans(job.storage, registry):
        observer.message(
            f"there is no flow {orphan!r} any more; its checkpoint remains in {job.storage.data}"
        )


def _reloaded(job: Job) -> Job:
    """Return a job with its files as they are now; state is discarded only at the start."""
    forget_imported(job.project.folder)
    return replace(job, project=job.project.again(), full_refresh=())


def resolver_of(job: Job, spark: Any, registry: Registry, **more: Any) -> Resolver:
    """Return the resolver of a job's flows."""
    context = replace(job.context, names=tuple(registry.datasets))
    return Resolver(
        spark,
        registry,
        job.storage,
        context,
        name=job.project.name,
        bootstrap=job.bootstrap,
        client=job.client,
        **more,
    )


def discard_state(job: Job, registry: Registry) -> None:
    """Delete the state of the flows into the named datasets."""
    names = list(registry.datasets) if "*" in job.full_refresh else list(job.full_refresh)
    for name in names:
        if name not in registry.datasets:
            raise PipelineProblem(f"unknown dataset {name!r}", *did_you_mean(name, registry.datasets))
        for flow in registry.flows_into(name):
            job.storage.forget(flow.name, name)


def orphans(storage: Storage, registry: Registry) -> list[str]:
    """Return the flows that have a checkpoint and are not declared any more."""
    if not storage.checkpoints.is_dir():
        return []
    return sorted(each.name for each in storage.checkpoints.iterdir() if each.name not in registry.flows)


@contextmanager
def _serving(job: Job, state: State) -> Iterator[str]:
    """Serve metrics and the state within the block; yield the address, empty if nothing is served."""
    if not job.listen:
        yield ""
        return
    endpoint = DriverEndpoint(BOARD, lambda: asdict(state))
    try:
        endpoint.start(*listen_address(job.listen))
    except (OSError, ValueError) as error:
        raise PipelineProblem(f"cannot serve metrics on {job.listen}: {error}") from None
    try:
        yield endpoint.url
    finally:
        endpoint.close()


@contextmanager
def _measuring(job: Job) -> Iterator[Callable[[dict[tuple[str, int], int]], int | None]]:
    if not job.bootstrap:
        yield lambda offsets: None
        return
    meter = LagMeter(job.bootstrap, job.client)
    try:
        yield meter
    finally:
        meter.close()


def project_without_files(name: str, folder: Path) -> Project:
    """Return a project for a pipeline that a command builds."""
    from ottla.spark.pipelines.spec import Spec

    return Project(name, folder, (), Spec())
