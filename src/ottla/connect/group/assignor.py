"""Who runs what: workers keep what they run, what is new goes to those with the least. Pure code.

Work moves in two rounds, so that it never runs twice: in the first a worker gives it up, and joins again; in
the second it belongs to no worker, and another gets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.connect.group.protocol import Assignment, TaskId, WorkerMetadata


def assign(
    workers: Mapping[str, WorkerMetadata], wanted: Iterable[TaskId], leader: str, config_offset: int
) -> dict[str, Assignment]:
    """Return the assignment of each worker."""
    everything = set(wanted)
    keeps: dict[str, set[TaskId]] = {}
    revoked: dict[str, set[TaskId]] = {}
    claimed: set[TaskId] = set()
    for member in sorted(workers):
        running = workers[member].running
        keeps[member] = {each for each in running if each in everything and each not in claimed}
        revoked[member] = set(running) - keeps[member]
        claimed |= keeps[member]
    contested = {each for member in revoked for each in revoked[member]}
    free = sorted(everything - claimed - contested)
    assigned: dict[str, set[TaskId]] = {member: set() for member in workers}
    for each in free:
        least = min(sorted(workers), key=lambda member: len(keeps[member]) + len(assigned[member]))
        assigned[least].add(each)
    _level(keeps, assigned, revoked)
    return {
        member: Assignment(
            leader,
            workers[leader].url,
            config_offset,
            frozenset(assigned[member]),
            frozenset(revoked[member]),
        )
        for member in workers
    }


def _level(
    keeps: dict[str, set[TaskId]], assigned: dict[str, set[TaskId]], revoked: dict[str, set[TaskId]]
) -> None:
    """Revoke from workers with more than their share."""
    total = sum(len(each) for each in (*keeps.values(), *assigned.values()))
    floor, extra = divmod(total, len(keeps))
    by_load = sorted(keeps, key=lambda member: -(len(keeps[member]) + len(assigned[member])))
    for place, member in enumerate(by_load):
        share = floor + (1 if place < extra else 0)
        surplus = len(keeps[member]) + len(assigned[member]) - share
        movable = sorted(
            keeps[member] - revoked[member], key=lambda each: (each.task < 0, each), reverse=False
        )
        for each in movable[: max(0, surplus)]:
            revoked[member].add(each)
