"""A driver: one process that runs one pipeline, from the path to the last batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

from ottla.client import Admin, ClientError, KafkaError, TopicPartition
from ottla.client.offsets import LATEST
from ottla.common.clock import Clock
from ottla.common.near_names import did_you_mean
from ottla.spark.pipelines.loading import compile_project, load_project
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.project import Project
from ottla.spark.pipelines.registry import Registry
from ottla.spark.pipelines.resolving import Resolver
from ottla.spark.pipelines.runner import Observer, Runner, RunOptions
from ottla.spark.pipelines.shipping import ship_imported
from ottla.spark.pipelines.state import new_state, sole_driver
from ottla.spark.pipelines.storage import Storage
from ottla.spark.pipelines.user_errors import Context

# How many records a flow has still to read: where the topics end, against where the flow is.

TIMEOUT_MS = 5_000
"""What is shown is not worth waiting for longer."""


class LagMeter:
    """Asks the cluster where topics end; connected when it is first asked, and again after a failure."""

    def __init__(self, bootstrap: str, client: Mapping[str, str] | None = None) -> None:
        self._bootstrap = bootstrap
        self._client: dict[str, Any] = dict(client or {})
        if not {"default_api_timeout_ms", "default.api.timeout.ms"} & self._client.keys():
            self._client["default_api_timeout_ms"] = TIMEOUT_MS
        self._admin: Admin | None = None

    def __call__(self, offsets: dict[tuple[str, int], int]) -> int | None:
        """Return the lag in records, None if the cluster does not say."""
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
"""Declares a pipeline, once there is a session."""


@dataclass(frozen=True)
class Job:
    """A pipeline that is to be run, and where."""

    project: Project
    storage: Storage
    bootstrap: str = ""
    client: Mapping[str, str] = field(default_factory=dict)
    """Options of every client, by Kafka's names: how to connect and to log in."""
    master: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's, over those of the spec file."""
    full_refresh: Sequence[str] = ()
    """Datasets to start over; `*` for all."""
    options: RunOptions = field(default_factory=RunOptions)

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
    """Run a pipeline until it is done or `stopping` is set; raise PipelineProblem if it cannot go on."""
    with sole_driver(job.storage, job.project.name), _measuring(job) as lag:
        compiled = compile_project(job.project)
        state = new_state(job.project.name, str(job.project.folder), job.master, clock.wall_ms())
        state.write(job.storage)
        try:
            observer.say("starting Spark")
            spark = spark_of(job)
            registry = load(spark) if load is not None else load_project(job.project, spark, compiled)
            ship_imported(spark, job.project, job.storage.data)
            start_over(job, registry)
            if job.project.spec.catalog or job.project.spec.database:
                observer.say(f"catalog and database are not used: tables are files in {job.storage.data}")
            for orphan in orphans(job.storage, registry):
                observer.say(
                    f"no flow is named {orphan!r} any more; its checkpoint stays in {job.storage.data}"
                )
        except Exception as error:
            state.state, state.error = "failed", str(error)
            state.write(job.storage)
            raise
        runner = Runner(
            resolver_of(job, spark, registry), state, job.options, observer, clock, stopping=stopping, lag=lag
        )
        runner.run()


def resolver_of(job: Job, spark: Any, registry: Registry, **more: Any) -> Resolver:
    """Return what makes the DataFrames of a job's flows."""
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


def start_over(job: Job, registry: Registry) -> None:
    """Forget what the flows into the named datasets have done."""
    names = list(registry.datasets) if "*" in job.full_refresh else list(job.full_refresh)
    for name in names:
        if name not in registry.datasets:
            raise PipelineProblem(
                f"there is no dataset {name!r} to start over", *did_you_mean(name, registry.datasets)
            )
        for flow in registry.flows_into(name):
            job.storage.forget(flow.name, name)


def orphans(storage: Storage, registry: Registry) -> list[str]:
    """Return the flows that have a checkpoint and are not declared any more."""
    if not storage.checkpoints.is_dir():
        return []
    return sorted(each.name for each in storage.checkpoints.iterdir() if each.name not in registry.flows)


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
    """Return a project for a pipeline that is made by a command."""
    from ottla.spark.pipelines.spec import Spec

    return Project(name, folder, (), Spec())
