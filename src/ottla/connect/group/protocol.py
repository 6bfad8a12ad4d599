"""The bytes of Connect's group protocol `compatible` (version 1): metadata of workers, assignments.

metadata      version, url, config offset, what the worker runs (an assignment, as bytes)
assignment    version, error, leader, leader's url, config offset, assigned, revoked, delay
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

PROTOCOL_TYPE = "connect"
PROTOCOL = "compatible"
VERSION = 1
CONNECTOR = -1
"""Stands for the connector itself in a list of tasks."""


class TaskId(NamedTuple):
    """A task of a connector; the connector itself is the task -1."""

    connector: str
    task: int

    def __str__(self) -> str:
        return self.connector if self.task == CONNECTOR else f"{self.connector}-{self.task}"


@dataclass(frozen=True)
class Assignment:
    """What the leader has a worker do."""

    leader: str = ""
    leader_url: str = ""
    config_offset: int = -1
    assigned: frozenset[TaskId] = frozenset()
    revoked: frozenset[TaskId] = frozenset()
    delay_ms: int = 0
    error: int = 0


@dataclass(frozen=True)
class WorkerMetadata:
    """What a worker says of itself when it joins."""

    url: str
    config_offset: int
    running: frozenset[TaskId] = frozenset()


def encode_assignment(assignment: Assignment) -> bytes:
    """Return the bytes of an assignment."""
    return b"".join(
        (
            struct.pack(">hh", VERSION, assignment.error),
            _string(assignment.leader),
            _string(assignment.leader_url),
            struct.pack(">q", assignment.config_offset),
            _tasks(assignment.assigned),
            _tasks(assignment.revoked),
            struct.pack(">i", assignment.delay_ms),
        )
    )


def decode_assignment(data: bytes) -> Assignment:
    """Return an assignment."""
    reader = _Reader(data)
    version, error = reader.unpack(">hh")
    leader, url = reader.string(), reader.string()
    (offset,) = reader.unpack(">q")
    assigned = reader.tasks()
    revoked = reader.tasks() if version >= VERSION else frozenset()
    (delay,) = reader.unpack(">i") if version >= VERSION and not reader.is_at_end else (0,)
    return Assignment(leader, url, offset, assigned, revoked, delay, error)


def encode_metadata(metadata: WorkerMetadata) -> bytes:
    """Return the bytes of a worker's metadata."""
    running = encode_assignment(Assignment(assigned=metadata.running))
    return b"".join(
        (
            struct.pack(">h", VERSION),
            _string(metadata.url),
            struct.pack(">q", metadata.config_offset),
            struct.pack(">i", len(running)),
            running,
        )
    )


def decode_metadata(data: bytes) -> WorkerMetadata:
    """Return a worker's metadata."""
    reader = _Reader(data)
    (version,) = reader.unpack(">h")
    url = reader.string()
    (offset,) = reader.unpack(">q")
    running: frozenset[TaskId] = frozenset()
    if version >= VERSION and not reader.is_at_end:
        (size,) = reader.unpack(">i")
        if size > 0:
            running = decode_assignment(reader.take(size)).assigned
    return WorkerMetadata(url, offset, running)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _tasks(ids: Iterable[TaskId]) -> bytes:
    by_connector: dict[str, list[int]] = {}
    for name, task in sorted(ids):
        by_connector.setdefault(name, []).append(task)
    found = struct.pack(">i", len(by_connector))
    for name, tasks in by_connector.items():
        found += _string(name) + struct.pack(f">i{len(tasks)}i", len(tasks), *tasks)
    return found


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._data)

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError("the bytes of the group protocol end too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def unpack(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def string(self) -> str:
        return self.take(self.unpack(">h")[0]).decode()

    def tasks(self) -> frozenset[TaskId]:
        found = set()
        for _ in range(max(0, self.unpack(">i")[0])):
            name = self.string()
            (count,) = self.unpack(">i")
            found |= {TaskId(name, task) for task in self.unpack(f">{max(0, count)}i")}
        return frozenset(found)
