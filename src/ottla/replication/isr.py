"""Which replicas are in sync, and what is therefore committed. Pure: times and offsets are arguments.

A leader learns about its followers only from their fetches: a fetch at offset n means that everything below n
is in that follower's log (and on its disk, if the topic flushes every message). From that:

- The high watermark is the smallest log end offset in the *maximal* ISR: the current in-sync replicas and
  those of a pending change. Whichever of the two the controller elects from, every possible leader has what
  is committed.
- Only fetches in this leader epoch count. What a follower reported to an earlier leader, or in an earlier
  epoch, may have been truncated since.
- With fewer in-sync replicas than min.insync.replicas it does not advance (KIP-966).
- A follower joins when it has everything that is committed, and has passed the start of this leader epoch:
  before that, its records may differ from the leader's, and the leader's high watermark may be too low.
- A member is removed when it lags by more than replica.lag.time.max.ms: it lacks records that are older. A
  member that is always behind, but by less, stays.

One change is pending at a time; until the controller has answered, or the image shows another decision, both
states count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice

UNKNOWN = -1
MAX_LEADER_ENDS = 64
"""How many earlier log end offsets of the leader are remembered for a follower that is behind."""


class Follower:
    """What a leader knows of one follower, in its own leader epoch."""

    __slots__ = (
        "_leader_ends",
        "_sample_interval_ms",
        "broker_epoch",
        "caught_up_ms",
        "fetched_ms",
        "lag_start_ms",
        "leader_end_at_fetch",
        "log_end_offset",
        "log_start_offset",
        "node_id",
    )

    def __init__(self, node_id: int, caught_up_ms: int) -> None:
        self.node_id = node_id
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.caught_up_ms = caught_up_ms
        """When it last had everything that the leader had then, or at the fetch before (as in Kafka)."""
        self.lag_start_ms = caught_up_ms
        """A time up to which it has all records: it lags by no more than the time since then."""
        self._leader_ends: deque[tuple[int, int]] = deque()
        """For a follower that is behind: (log end offset of the leader, time) of earlier fetches."""
        self._sample_interval_ms = 1
        self.fetched_ms = UNKNOWN
        self.leader_end_at_fetch = UNKNOWN

    def record_fetch(
        self, offset: int, log_start_offset: int, leader_end_offset: int, broker_epoch: int, now_ms: int
    ) -> None:
        """Record a fetch at `offset`."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self.fetched_ms >= 0 and offset >= self.leader_end_at_fetch:
            # It has all that there was when it last asked: it is behind only by what came since.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.lag_start_ms = max(self.lag_start_ms, self.caught_up_ms)
        self._update_lag_start(offset, leader_end_offset, now_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.fetched_ms = now_ms
        self.leader_end_at_fetch = leader_end_offset

    def _update_lag_start(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Determine which earlier log ends of the leader it has reached, and remember the current one."""
        leader_ends = self._leader_ends
        while leader_ends and leader_ends[0][0] <= offset:
            self.lag_start_ms = max(self.lag_start_ms, leader_ends.popleft()[1])
        if offset >= leader_end_offset:
            return
        if not leader_ends:
            self._sample_interval_ms = 1
        elif now_ms < leader_ends[-1][1] + self._sample_interval_ms:
            return
        elif len(leader_ends) >= MAX_LEADER_ENDS:
            leader_ends = self._leader_ends = deque(islice(leader_ends, 0, None, 2))
            self._sample_interval_ms *= 2
        leader_ends.append((leader_end_offset, now_ms))

    def has_fetched_within(self, lag_max_ms: int, now_ms: int) -> bool:
        """Return whether it has fetched recently: a silent one would be removed as soon as it has joined."""
        return self.fetched_ms >= 0 and now_ms - self.fetched_ms <= lag_max_ms

    def is_caught_up(self, leader_end_offset: int, lag_max_ms: int, now_ms: int) -> bool:
        """Return whether it is at the log's end, or was within `lag_max_ms`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms

    def is_within_lag(self, leader_end_offset: int, lag_max_ms: int, now_ms: int) -> bool:
        """Return whether it lacks nothing that is older than `lag_max_ms`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.lag_start_ms <= lag_max_ms


def maximal_isr(isr: Iterable[int], proposed: Iterable[int] | None) -> frozenset[int]:
    """Return every replica that may be in the ISR: as agreed, and as proposed while that is pending."""
    return frozenset(isr) if proposed is None else frozenset(isr) | frozenset(proposed)


def committed_offset(ends: Iterable[int], in_sync_count: int, min_insync: int) -> int:
    """Return the smallest of `ends` (of the maximal ISR); -1 while too few are in sync."""
    if in_sync_count < min_insync:
        return UNKNOWN
    return min(ends, default=UNKNOWN)


def may_join(end_offset: int, high_watermark: int, epoch_start_offset: int) -> bool:
    """Return whether a follower that has everything below `end_offset` may join the ISR."""
    return end_offset >= high_watermark and end_offset >= epoch_start_offset


class InSyncReplicas:
    """One leader's view of the replicas of one partition, for one leader epoch."""

    def __init__(
        self,
        node_id: int,
        epoch_start_offset: int,
        replicas: Collection[int],
        isr: Collection[int],
        partition_epoch: int,
        now_ms: int,
    ) -> None:
        self.node_id = node_id
        self.epoch_start_offset = epoch_start_offset
        self.isr = tuple(isr)
        self.proposed: tuple[int, ...] | None = None
        """A change that the controller may or may not have made."""
        self.partition_epoch = partition_epoch
        self.followers: dict[int, Follower] = {}
        self.maximal = maximal_isr(self.isr, None)
        self._set_replicas(replicas, now_ms)

    # Decisions of the controller

    def update(
        self, replicas: Collection[int], isr: Collection[int], partition_epoch: int, now_ms: int
    ) -> bool:
        """Apply what the controller decided, if it is newer; then no older proposal can succeed."""
        if partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        for node_id in set(isr).difference(self.isr):
            if (joined := self.followers.get(node_id)) is not None:
                # It has what is committed, and from now on lag_max_ms to have the rest.
                joined.lag_start_ms = max(joined.lag_start_ms, now_ms)
        self.isr, self.proposed = tuple(isr), None
        self.maximal = maximal_isr(self.isr, None)
        self._set_replicas(replicas, now_ms)
        return True

    def propose(self, isr: tuple[int, ...]) -> None:
        """Record that `isr` is proposed: from now on it counts too."""
        self.proposed = isr
        self.maximal = maximal_isr(self.isr, isr)

    def withdraw(self) -> None:
        """Drop the proposal, which the controller has definitely rejected."""
        self.proposed = None
        self.maximal = maximal_isr(self.isr, None)

    # Derived from fetches

    def high_watermark(self, own_end_offset: int, min_insync: int, also: Collection[int]) -> int:
        """Return the committed offset; -1 if it cannot be determined now.

        `own_end_offset` is the leader's log end; with flush.messages=1, its flushed end. `also` are followers
        to wait for although they are not in the ISR; see `joining_soon`.
        """
        ends = [own_end_offset]
        for node_id in self.maximal.union(also):
            if node_id != self.node_id:
                follower = self.followers.get(node_id)
                ends.append(UNKNOWN if follower is None else follower.log_end_offset)
        return committed_offset(ends, len(self.isr), min_insync)

    def joining_soon(
        self, eligible: Collection[int], log_end: int, lag_max_ms: int, now_ms: int
    ) -> list[int]:
        """Return the followers that are about to join.

        The leader waits for them too: otherwise they would have to chase the high watermark under load.
        """
        return [
            node_id
            for node_id, follower in self.followers.items()
            if node_id not in self.maximal
            and follower.log_end_offset >= self.epoch_start_offset
            and node_id in eligible
            and follower.is_caught_up(log_end, lag_max_ms, now_ms)
        ]

    def target_isr(
        self, joining: Collection[int], high_watermark: int, log_end: int, lag_max_ms: int, now_ms: int
    ) -> tuple[int, ...] | None:
        """Return the ISR to propose, or None if it need not change or a change is pending.

        `joining` are the brokers that are alive and may become members.
        """
        if self.proposed is not None:
            return None
        wanted = [
            node_id
            for node_id in self.isr
            if node_id == self.node_id
            or (
                (follower := self.followers.get(node_id))
                and follower.is_within_lag(log_end, lag_max_ms, now_ms)
            )
        ]
        wanted += [
            node_id
            for node_id in sorted(joining)
            if node_id not in self.isr
            and (follower := self.followers.get(node_id))
            and follower.has_fetched_within(lag_max_ms, now_ms)
            and may_join(follower.log_end_offset, high_watermark, self.epoch_start_offset)
        ]
        return tuple(wanted) if wanted != list(self.isr) else None

    def late_members(self, log_end: int, limit_ms: int, now_ms: int) -> list[int]:
        """Return the followers that commits wait for, and that have not kept up for `limit_ms`.

        Until the controller has removed them from the ISR, nothing is committed.
        """
        late = []
        for node_id in sorted(self.maximal - {self.node_id}):
            follower = self.followers.get(node_id)
            if follower is None:
                late.append(node_id)
                continue
            silent_ms = now_ms - max(follower.fetched_ms, follower.caught_up_ms)
            if silent_ms > limit_ms or not follower.is_within_lag(log_end, limit_ms, now_ms):
                late.append(node_id)
        return late

    def is_waiting_to_join(self, node_id: int, high_watermark: int) -> bool:
        """Return whether a follower is not in the ISR and could be."""
        if self.proposed is not None or node_id in self.isr:
            return False
        follower = self.followers.get(node_id)
        return follower is not None and may_join(
            follower.log_end_offset, high_watermark, self.epoch_start_offset
        )

    def broker_epoch(self, node_id: int) -> int:
        """Return the broker epoch that a follower fetches with, -1 if it has not fetched yet."""
        follower = self.followers.get(node_id)
        return UNKNOWN if follower is None else follower.broker_epoch

    def low_watermark(self, own_log_start: int, alive: Collection[int]) -> int:
        """Return the smallest log start offset of the replicas that are alive."""
        starts = [each.log_start_offset for each in self.followers.values() if each.node_id in alive]
        return min([own_log_start, *starts])

    def _set_replicas(self, replicas: Collection[int], now_ms: int) -> None:
        """Set the replicas, keeping what is known of a follower."""
        others = [node_id for node_id in replicas if node_id != self.node_id]
        # A member is given the benefit of the doubt: it has lag_max_ms to show that it is there.
        self.followers = {
            node_id: self.followers.get(node_id)
            or Follower(node_id, now_ms if node_id in self.isr else -(1 << 62))
            for node_id in others
        }
