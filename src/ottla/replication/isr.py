"""Which replicas are in sync, and what is therefore committed. Pure: times and offsets are passed in.

A leader hears from its followers only through their fetches: a fetch at offset n says that everything
below n is in that follower's log (and on its disk, if the topic flushes on ack). From that:

- The high watermark is the smallest end offset among the *maximal* ISR: the in-sync replicas that are
  agreed on, and those of a change that is under way. Whichever of the two the controller makes
  true, and elects from, every possible leader has what is committed.
- Only fetches in this leader epoch count. What a follower said to an earlier leader, or to this one in
  an earlier epoch, may have been truncated since.
- With fewer in sync than min.insync.replicas it does not move at all (KIP-966).
- A follower joins when it has everything that is committed, and has passed the start of this leader epoch:
  before that, its records may be others than the leader's, and the leader's high watermark may be too low.
- A member leaves when it lags by more than replica.lag.time.max.ms: it lacks records that are older. A member
  that is always behind, but by less, stays.

One change is under way at a time; until the controller has answered, or the image shows that it decided
otherwise, both states count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice

UNKNOWN = -1
MAX_MARKS = 64
"""How many earlier ends of the leader's log are remembered for a follower that is behind."""


class Follower:
    """What a leader knows of one follower, in its own leader epoch."""

    __slots__ = (
        "_mark_every_ms",
        "_marks",
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
        """When it last had everything that the leader had, or had had at the fetch before (as in Kafka)."""
        self.lag_start_ms = caught_up_ms
        """A time whose whole log it has: it lags by no more than the time since then."""
        self._marks: deque[tuple[int, int]] = deque()
        """Earlier fetches of a follower that is behind: the leader's log end, and when."""
        self._mark_every_ms = 1
        self.fetched_ms = UNKNOWN
        self.leader_end_at_fetch = UNKNOWN

    def fetched(
        self, offset: int, log_start_offset: int, leader_end_offset: int, broker_epoch: int, now_ms: int
    ) -> None:
        """Take in a fetch at `offset`."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self.fetched_ms >= 0 and offset >= self.leader_end_at_fetch:
            # It has all that there was when it last asked: it is behind only by what came since.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.lag_start_ms = max(self.lag_start_ms, self.caught_up_ms)
        self._mark(offset, leader_end_offset, now_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.fetched_ms = now_ms
        self.leader_end_at_fetch = leader_end_offset

    def _mark(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Find out which of the leader's earlier log ends it has reached, and remember the present one."""
        marks = self._marks
        while marks and marks[0][0] <= offset:
            self.lag_start_ms = max(self.lag_start_ms, marks.popleft()[1])
        if offset >= leader_end_offset:
            return
        if not marks:
            self._mark_every_ms = 1
        elif now_ms < marks[-1][1] + self._mark_every_ms:
            return
        elif len(marks) >= MAX_MARKS:
            marks = self._marks = deque(islice(marks, 0, None, 2))
            self._mark_every_ms *= 2
        marks.append((leader_end_offset, now_ms))

    def is_heard_from(self, lag_max_ms: int, now_ms: int) -> bool:
        """Return whether it fetches: who has fallen silent would leave the ISR as soon as it has joined."""
        return self.fetched_ms >= 0 and now_ms - self.fetched_ms <= lag_max_ms

    def is_caught_up(self, leader_end_offset: int, lag_max_ms: int, now_ms: int) -> bool:
        """Return whether it is at the log's end, or was within `lag_max_ms`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms

    def keeps_up(self, leader_end_offset: int, lag_max_ms: int, now_ms: int) -> bool:
        """Return whether it lacks nothing that is older than `lag_max_ms`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.lag_start_ms <= lag_max_ms


def maximal_isr(isr: Iterable[int], proposed: Iterable[int] | None) -> frozenset[int]:
    """Return everyone who may be in the ISR: as agreed, and as proposed while that is undecided."""
    return frozenset(isr) if proposed is None else frozenset(isr) | frozenset(proposed)


def committed_offset(ends: Iterable[int], in_sync_count: int, min_insync: int) -> int:
    """Return how far all of `ends` (of the maximal ISR) have come; -1 while too few are in sync."""
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

    # What is decided elsewhere

    def update(
        self, replicas: Collection[int], isr: Collection[int], partition_epoch: int, now_ms: int
    ) -> bool:
        """Take over what the controller decided, if it is news; then no older proposal can succeed."""
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
        """Say that `isr` is being asked for: from now on it counts too."""
        self.proposed = isr
        self.maximal = maximal_isr(self.isr, isr)

    def withdraw(self) -> None:
        """The controller refused the proposal, for sure."""
        self.proposed = None
        self.maximal = maximal_isr(self.isr, None)

    # What follows from the fetches

    def high_watermark(self, own_end_offset: int, min_insync: int, also: Collection[int]) -> int:
        """Return what is committed; -1 if that cannot be said now.

        `own_end_offset` is what counts as written here: with flush-on-ack, what is on the disk. `also` are
        followers to wait for although they are not members; see `joining_soon`.
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
        """Return the followers that are about to join: without waiting for them they would have to
        chase the high watermark under load."""
        return [
            node_id
            for node_id, follower in self.followers.items()
            if node_id not in self.maximal
            and follower.log_end_offset >= self.epoch_start_offset
            and node_id in eligible
            and follower.is_caught_up(log_end, lag_max_ms, now_ms)
        ]

    def wanted_members(
        self, joining: Collection[int], high_watermark: int, log_end: int, lag_max_ms: int, now_ms: int
    ) -> tuple[int, ...] | None:
        """Return the ISR to ask for, or None if it is right as it is or a change is under way.

        `joining` are the brokers that are alive and may become members.
        """
        if self.proposed is not None:
            return None
        wanted = [
            node_id
            for node_id in self.isr
            if node_id == self.node_id
            or ((follower := self.followers.get(node_id)) and follower.keeps_up(log_end, lag_max_ms, now_ms))
        ]
        wanted += [
            node_id
            for node_id in sorted(joining)
            if node_id not in self.isr
            and (follower := self.followers.get(node_id))
            and follower.is_heard_from(lag_max_ms, now_ms)
            and may_join(follower.log_end_offset, high_watermark, self.epoch_start_offset)
        ]
        return tuple(wanted) if wanted != list(self.isr) else None

    def is_waiting_to_join(self, node_id: int, high_watermark: int) -> bool:
        """Return whether a follower is not a member and could be."""
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
        """Return the smallest log start among the replicas that are alive."""
        starts = [each.log_start_offset for each in self.followers.values() if each.node_id in alive]
        return min([own_log_start, *starts])

    def _set_replicas(self, replicas: Collection[int], now_ms: int) -> None:
        """Know these replicas; what is known already of a follower stays."""
        others = [node_id for node_id in replicas if node_id != self.node_id]
        # A member is given the benefit of the doubt: it has lag_max_ms to show that it is there.
        self.followers = {
            node_id: self.followers.get(node_id)
            or Follower(node_id, now_ms if node_id in self.isr else -(1 << 62))
            for node_id in others
        }
