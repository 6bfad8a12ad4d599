"""What a leader asks of the controller: another set of in-sync replicas."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class IsrChange(NamedTuple):
    """The in-sync replicas that a leader proposes, decided on one state of its partition.

    Each comes with the epoch of its broker (-1: not known), so that one that restarted since is not let in.
    """

    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[tuple[int, int], ...]
    """(node_id, broker_epoch)"""
