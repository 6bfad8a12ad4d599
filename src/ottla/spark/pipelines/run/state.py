"""State files: which driver runs a pipeline, since when, and its progress; readable from another terminal.

The file contains what the driver last wrote. Whether that driver is alive is checked with the system: its
process id must exist, on this machine, with the same start time. A lock ensures that there is only one
driver.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.run.storage import Storage, write_atomically

STARTING, RUNNING, PAUSED, STOPPING, STOPPED, DONE, FAILED = (
    "starting",
    "running",
    "paused",
    "stopping",
    "stopped",
    "done",
    "failed",
)
DIED = "died"
"""The driver's process has died, but its state file says that it runs."""

ALIVE = (STARTING, RUNNING, PAUSED, STOPPING)


@dataclass
class State:
    """The state of a pipeline, as its driver last wrote it."""

    name: str
    path: str
    state: str
    pid: int
    host: str
    process_start: int
    """The start time of the process, in the clock ticks of /proc: distinguishes it from a later one with
    the same id.
    """
    started_ms: int
    updated_ms: int
    master: str = ""
    error: str | None = None
    flows: list[dict[str, Any]] = field(default_factory=list)
    storage: str = ""
    """The folder of checkpoints and tables."""
    url: str = ""
    """Where the driver serves /metrics and /status."""
    dead_letters: list[str] = field(default_factory=list)
    """The topics that its flows write dead letters to."""

    def write(self, storage: Storage) -> None:
        """Write the state file."""
        write_atomically(storage.state_file, json.dumps(asdict(self), indent=2) + "\n")

    def is_here(self) -> bool:
        """Return whether its driver is alive on this machine."""
        return self.host == socket.gethostname() and process_start(self.pid) == self.process_start

    def now(self) -> str:
        """Return the state; that of a driver on another machine cannot be verified."""
        if self.state in ALIVE and self.host == socket.gethostname() and not self.is_here():
            return DIED
        return self.state


def new_state(name: str, path: str, master: str, now_ms: int, storage: str = "") -> State:
    """Return the state of a pipeline that this process is about to run."""
    pid = os.getpid()
    return State(
        name=name,
        path=path,
        state=STARTING,
        pid=pid,
        host=socket.gethostname(),
        process_start=process_start(pid) or 0,
        started_ms=now_ms,
        updated_ms=now_ms,
        master=master,
        storage=storage,
    )


def read_state(file: Path) -> State | None:
    """Return the contents of a state file, None if it cannot be read."""
    try:
        return state_of(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def state_of(value: dict[str, Any]) -> State:
    """Return a state from JSON; entries of other versions are ignored."""
    known = {each.name for each in fields(State)}
    return State(**{name: each for name, each in value.items() if name in known})


def all_states(root: Path) -> list[State]:
    """Return the states of all pipelines under a root, by name."""
    found = (read_state(file) for file in sorted(root.glob("*/state.json")))
    return [state for state in found if state is not None]


def process_start(pid: int) -> int | None:
    """Return the start time of a process (clock ticks since boot), None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the process name before it may contain anything
    return None if fields[0] == "Z" else int(fields[19])


@contextmanager
def driver_lock(storage: Storage, name: str) -> Iterator[None]:
    """Hold the lock of a pipeline; raise PipelineProblem if another driver has it."""
    storage.data.mkdir(parents=True, exist_ok=True)
    with storage.lock_file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            state = read_state(storage.state_file)
            who = f" (process {state.pid})" if state is not None else ""
            raise PipelineProblem(
                f"pipeline {name!r} is already running{who}",
                f"see:      ottla pipeline status {name}",
                f"stop it:  ottla pipeline stop {name}",
            ) from None
        yield
