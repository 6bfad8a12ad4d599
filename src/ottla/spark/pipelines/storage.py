"""Where a pipeline keeps what it must remember: one folder per pipeline, under one root.

<root>/<pipeline>/state.json            who runs it, how far it is
                  spark.log             what Spark said in the last run
<storage>/lock                          held by the one driver that runs it
          checkpoints/<flow>/           Spark's checkpoint of a flow
          tables/<table>/<flow>/        files of a streaming table, one folder for each flow into it
          views/<view>/<version>/       a materialized view as it was computed; `current` names the version
          once/<flow>/                  the one-line stream that drives a flow which is no stream

<storage> is <root>/<pipeline> unless the spec file names another folder.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ottla.spark.pipelines.problems import PipelineProblem

CURRENT = "current"


@dataclass(frozen=True)
class Storage:
    """The folders of one pipeline."""

    home: Path
    data: Path

    @property
    def state_file(self) -> Path:
        """Who runs it, how far it is."""
        return self.home / "state.json"

    @property
    def log_file(self) -> Path:
        """What Spark said in the last run."""
        return self.home / "spark.log"

    @property
    def lock_file(self) -> Path:
        """Held by the driver."""
        return self.data / "lock"

    @property
    def checkpoints(self) -> Path:
        """The checkpoints of all flows."""
        return self.data / "checkpoints"

    def checkpoint(self, flow: str) -> Path:
        """Spark's checkpoint of a flow."""
        return self.checkpoints / flow

    def table(self, table: str, flow: str) -> Path:
        """The files that one flow has written to a streaming table."""
        return self.data / "tables" / table / flow

    def view(self, view: str) -> Path:
        """The versions of a materialized view."""
        return self.data / "views" / view

    def once(self, flow: str) -> Path:
        """The stream of one line that drives a flow which is no stream."""
        return self.data / "once" / flow

    def current_view(self, view: str) -> Path | None:
        """Return the folder of the newest version of a materialized view, if it was computed."""
        pointer = self.view(view) / CURRENT
        if not pointer.is_file():
            return None
        return self.view(view) / pointer.read_text(encoding="utf-8").strip()

    def publish_view(self, view: str, version: str) -> None:
        """Make a version the current one, in one step; keep the one before for those who still read it."""
        folder = self.view(view)
        before = self.current_view(view)
        write_whole(folder / CURRENT, version + "\n")
        for each in folder.iterdir():
            if each.is_dir() and each.name != version and each != before:
                shutil.rmtree(each, ignore_errors=True)

    def forget(self, flow: str, target: str) -> None:
        """Start a flow over: remove its checkpoint and the files it wrote to its table."""
        for folder in (self.checkpoint(flow), self.table(target, flow), self.once(flow)):
            shutil.rmtree(folder, ignore_errors=True)


def open_storage(root: Path, name: str, folder: Path, declared: str = "") -> Storage:
    """Return the folders of pipeline `name`; `declared` is the storage of its spec file, in `folder`."""
    home = (root / name).absolute()
    if not declared:
        return Storage(home, home)
    scheme, separator, rest = declared.partition("://")
    if separator and scheme != "file":
        raise PipelineProblem(
            f"storage {declared!r} is not on a file system of this machine",
            "name a folder (file:///...), on a cluster one that all its machines share",
        )
    path = Path(rest if separator else declared.removeprefix("file:"))
    return Storage(home, path if path.is_absolute() else (folder / path).absolute())


def write_whole(file: Path, text: str) -> None:
    """Write a file so that others see all of the old text or all of the new."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(file.name + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
