"""Run pipelines of a few lines with the session of the tests."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

from ottla.common.clock import SystemClock
from ottla.spark.pipelines.project import open_project
from ottla.spark.pipelines.run import driver
from ottla.spark.pipelines.run.driver import Job
from ottla.spark.pipelines.run.progress import FlowProgress
from ottla.spark.pipelines.run.runner import RunOptions
from ottla.spark.pipelines.run.state import State, read_state
from ottla.spark.pipelines.run.storage import open_storage


class Watcher:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.batches: list[FlowProgress] = []
        self.said: list[str] = []

    def batch(self, progress: FlowProgress) -> None:
        self.batches.append(progress)

    def update(self, flows: object) -> None: ...

    def message(self, text: str) -> None:
        self.said.append(text)


class Pipeline:
    """Files in a folder, and what runs of them leave behind."""

    def __init__(
        self, spark: Any, folder: Path, bootstrap: str = "", files: Mapping[str, str] | None = None
    ) -> None:
        self.spark = spark
        self.folder = folder / "pipeline"
        self.bootstrap = bootstrap
        self.watcher = Watcher()
        self.root = folder / "root"
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in (files or {}).items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))

    def job(self, path: Path | None = None, **options: Any) -> Job:
        project = open_project(path or self.folder)
        refresh = options.pop("full_refresh", ())
        run_options = RunOptions(**{"available_now": True, "retries": 0, **options})
        storage = open_storage(self.root, project.name, project.folder)
        return Job(project, storage, bootstrap=self.bootstrap, full_refresh=refresh, options=run_options)

    def run(self, path: Path | None = None, stopping: Event | None = None, **options: Any) -> State:
        job = self.job(path, **options)
        driver.run(job, lambda _: self.spark, self.watcher, SystemClock(), stopping or Event())
        state = read_state(job.storage.state_file)
        assert state is not None
        return state

    def rows(self, kind: str, *names: str) -> list[dict[str, Any]]:
        """Return the rows of a table (`tables`, table, flow) or of a view (`views`, view)."""
        storage = self.job().storage
        folder = storage.current_view(names[0]) if kind == "views" else storage.table(*names)
        return [row.asDict() for row in self.spark.read.parquet(str(folder)).collect()]
