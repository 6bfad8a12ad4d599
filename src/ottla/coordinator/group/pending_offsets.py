"""Offsets that were committed in transactions which are still open: they count if the transaction commits.

Of two commits of one offset, the one that is later in the log counts. So what is committed outside of any
transaction, or deleted, supersedes all that is pending for it, whatever becomes of that; and when a
transaction commits, its offsets supersede those that others had written before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.coordinator.group.records import OffsetKey, OffsetValue


class _Pending(NamedTuple):
    number: int
    """Counts up in the order of the log."""
    value: OffsetValue | None


class PendingOffsets:
    """What producers have pending, by producer and by group."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, None]] = {}
        self._by_group: dict[str, dict[OffsetKey, dict[int, _Pending]]] = {}
        self._number = 0

    # State

    def add(self, producer_id: int, key: OffsetKey, value: OffsetValue | None) -> None:
        """Keep an offset until its producer's transaction ends; a later one takes the place of an earlier."""
        self._number += 1
        self._by_producer.setdefault(producer_id, {})[key] = None
        keys = self._by_group.setdefault(key.group_id, {})
        keys.setdefault(key, {})[producer_id] = _Pending(self._number, value)

    def end(self, producer_id: int, is_commit: bool) -> list[tuple[OffsetKey, OffsetValue | None]]:
        """Forget what a producer has pending; return what counts from now on."""
        counts = []
        for key in self._by_producer.pop(producer_id, {}):
            waiting = self._by_group[key.group_id][key]
            number, value = waiting.pop(producer_id)
            if is_commit:
                counts.append((key, value))
                for other in [each for each, pending in waiting.items() if pending.number < number]:
                    self._drop(other, key)
            self._tidy(key)
        return counts

    def supersede(self, key: OffsetKey) -> None:
        """Forget all that is pending for an offset."""
        for producer_id in list(self._by_group.get(key.group_id, {}).get(key, ())):
            self._drop(producer_id, key)
        self._tidy(key)

    def _drop(self, producer_id: int, key: OffsetKey) -> None:
        del self._by_group[key.group_id][key][producer_id]
        keys = self._by_producer[producer_id]
        del keys[key]
        if not keys:
            del self._by_producer[producer_id]

    def _tidy(self, key: OffsetKey) -> None:
        keys = self._by_group.get(key.group_id)
        if keys is not None and key in keys and not keys[key]:
            del keys[key]
            if not keys:
                del self._by_group[key.group_id]

    # Questions

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def has(self, key: OffsetKey) -> bool:
        """Return whether an open transaction has committed this offset."""
        return key in self._by_group.get(key.group_id, ())

    def of_group(self, group_id: str) -> tuple[OffsetKey, ...]:
        """Return the offsets of a group that are pending."""
        return tuple(self._by_group.get(group_id, ()))

    def of_topic(self, topic: str) -> Iterator[OffsetKey]:
        """Yield the offsets of a topic that are pending, of any group."""
        for keys in self._by_group.values():
            for key in keys:
                if key.topic == topic:
                    yield key
