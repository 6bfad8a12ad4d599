"""Forgetting offsets: those that outlived their retention, and those of topics that were deleted.

Both may concern a great many, so they are done in slices, each a step of its own that sets the timer for
the next; other events get their turn in between.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import SetTimer, Step
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.group.records import Record

KEY = ("expire",)
GROUPS_PER_SLICE = 500
RECORDS_PER_SLICE = 1000


def expire(
    now_ms: int, after: str, groups: Mapping[str, Group], offsets: Offsets, config: BrokerConfig
) -> Step:
    """Forget what has expired, of some groups in the order of their ids, beginning after the id `after`."""
    records: list[Record] = []
    ids = sorted(group_id for group_id in groups if group_id > after)
    for count, group_id in enumerate(ids, 1):
        group = groups[group_id]
        expired, is_all = offsets.expired(now_ms, group, config)
        records.extend(expired)
        if is_all and group.is_empty:
            records.extend(group.tombstones())
        if count == GROUPS_PER_SLICE or len(records) >= RECORDS_PER_SLICE:
            return Step(tuple(records), timers=(SetTimer((*KEY, group_id), now_ms),))
    again = SetTimer(KEY, now_ms + config.offsets_retention_check_interval_ms)
    return Step(tuple(records), timers=(again,))


def forget_timer(topic: str, now_ms: int) -> SetTimer:
    """Return the timer at which the offsets of a topic that is gone are forgotten: now."""
    return SetTimer(("forget", topic, str(now_ms)), now_ms)


def forget(now_ms: int, topic: str, deleted_ms: int, offsets: Offsets) -> Step:
    """Forget some offsets of a topic that is gone.

    A new topic may have its name by now; what was committed for that is newer than `deleted_ms`.
    """
    records = tuple(offsets.delete_topic(topic, deleted_ms, RECORDS_PER_SLICE))
    if len(records) < RECORDS_PER_SLICE:
        return Step(records)
    return Step(records, timers=(SetTimer(("forget", topic, str(deleted_ms)), now_ms),))
