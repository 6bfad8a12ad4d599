"""Who is in sync, and what is therefore committed."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.replication.isr import (
    MAX_LEADER_ENDS,
    Follower,
    InSyncReplicas,
    committed_offset,
    maximal_isr,
    may_join,
)

ME = 1
OTHERS = (2, 3, 4)
LAG_MS = 1_000


def three(isr: tuple[int, ...] = (1, 2, 3), epoch_start: int = 0) -> InSyncReplicas:
    return InSyncReplicas(ME, epoch_start, (1, 2, 3), isr, 0, now_ms=0)


def fetched(state: InSyncReplicas, node_id: int, offset: int, log_end: int, now_ms: int = 0) -> None:
    state.followers[node_id].record_fetch(offset, 0, log_end, 10 * node_id, now_ms)


def test_the_slowest_member_decides_what_is_committed() -> None:
    state = three()
    assert state.high_watermark(10, 1, ()) == -1, "nothing is known of the others yet"
    fetched(state, 2, 7, 10)
    fetched(state, 3, 9, 10)
    assert state.high_watermark(10, 1, ()) == 7
    assert state.high_watermark(5, 1, ()) == 5, "what is not on our own disk is not committed either"


def test_only_members_are_waited_for() -> None:
    state = three(isr=(1, 3))
    fetched(state, 3, 9, 10)
    assert state.high_watermark(10, 1, ()) == 9
    fetched(state, 2, 4, 10)
    assert state.high_watermark(10, 1, ()) == 9
    assert state.high_watermark(10, 1, (2,)) == 4


def test_with_fewer_in_sync_than_asked_for_nothing_more_is_committed() -> None:
    state = three(isr=(1,))
    assert state.high_watermark(10, 2, ()) == -1
    assert state.high_watermark(10, 1, ()) == 10


def test_while_a_change_is_in_flight_both_states_count() -> None:
    state = three(isr=(1, 2))
    fetched(state, 2, 8, 10)
    fetched(state, 3, 5, 10)
    state.propose((1, 2, 3))
    assert state.high_watermark(10, 1, ()) == 5, "the newcomer may be a member already"
    state.update((1, 2, 3), (1, 2), 1, now_ms=0)
    assert state.high_watermark(10, 1, ()) == 8
    state.propose((1,))
    assert state.high_watermark(10, 1, ()) == 8, "whoever is to leave may be a member still"
    state.withdraw()
    assert state.proposed is None


def test_an_older_state_of_the_partition_changes_nothing() -> None:
    state = three()
    assert state.update((1, 2, 3), (1, 2), 5, now_ms=0)
    assert not state.update((1, 2, 3), (1, 2, 3), 5, now_ms=0)
    assert not state.update((1, 2, 3), (1, 2, 3), 4, now_ms=0)
    assert state.isr == (1, 2)


def test_a_follower_joins_with_all_that_is_committed_and_past_the_start_of_the_epoch() -> None:
    state = three(isr=(1, 2), epoch_start=6)
    fetched(state, 2, 10, 10)
    fetched(state, 3, 5, 10)
    assert state.target_isr((2, 3), 4, 10, LAG_MS, now_ms=0) is None, "it is before the epoch's start"
    fetched(state, 3, 6, 10)
    assert state.target_isr((2, 3), 7, 10, LAG_MS, now_ms=0) is None, "it lacks what is committed"
    fetched(state, 3, 7, 10)
    assert state.is_waiting_to_join(3, 7)
    assert state.target_isr((2, 3), 7, 10, LAG_MS, now_ms=0) == (1, 2, 3)
    assert state.target_isr((2,), 7, 10, LAG_MS, now_ms=0) is None, "it is not alive"
    state.propose((1, 2, 3))
    assert state.target_isr((2, 3), 7, 10, LAG_MS, now_ms=0) is None, "one change at a time"


def test_a_member_leaves_that_has_not_been_at_the_end_for_long() -> None:
    state = three()
    fetched(state, 2, 10, 10, now_ms=100)
    fetched(state, 3, 9, 10, now_ms=100)
    assert state.target_isr((2, 3), 9, 12, LAG_MS, now_ms=LAG_MS) is None, "it has time to show up"
    assert state.target_isr((2, 3), 9, 12, LAG_MS, now_ms=LAG_MS + 1) == (1, 2)
    assert state.target_isr((2, 3), 9, 12, LAG_MS, now_ms=LAG_MS + 101) == (1,)
    assert state.target_isr((2, 3), 9, 10, LAG_MS, now_ms=9 * LAG_MS) == (1, 2), "2 lacks nothing"


def test_a_follower_is_caught_up_if_it_has_what_there_was_when_it_last_asked() -> None:
    follower = Follower(2, caught_up_ms=0)
    follower.record_fetch(5, 0, leader_end_offset=10, broker_epoch=1, now_ms=100)
    assert follower.caught_up_ms == 0
    follower.record_fetch(10, 0, leader_end_offset=20, broker_epoch=1, now_ms=200)
    assert follower.caught_up_ms == 100, "at 200 it had what there was at 100"
    follower.record_fetch(20, 0, leader_end_offset=20, broker_epoch=1, now_ms=300)
    assert follower.caught_up_ms == 300


def test_a_member_that_is_always_behind_by_less_than_the_limit_stays() -> None:
    state = three()
    for now_ms in range(0, 10 * LAG_MS, 50):
        # The log grows by 1 a millisecond, and it is always half of the limit behind: never at its end.
        fetched(state, 2, now_ms, now_ms, now_ms=now_ms)
        fetched(state, 3, max(0, now_ms - LAG_MS // 2), now_ms, now_ms=now_ms)
        assert state.target_isr((2, 3), 0, now_ms, LAG_MS, now_ms=now_ms) is None


def test_a_member_that_gets_ever_later_leaves_when_it_lags_for_too_long() -> None:
    state = three()
    now_ms = left_ms = 0
    while not left_ms:
        now_ms += 50
        fetched(state, 2, now_ms, now_ms, now_ms=now_ms)
        fetched(state, 3, now_ms // 2, now_ms, now_ms=now_ms)  # half as fast as the leader
        if state.target_isr((2, 3), 0, now_ms, LAG_MS, now_ms=now_ms) == (1, 2):
            left_ms = now_ms
    assert 2 * LAG_MS <= left_ms < 2.2 * LAG_MS, "then it lacks what is older than the limit"


def test_what_is_remembered_of_a_late_follower_is_bounded() -> None:
    follower = Follower(2, caught_up_ms=0)
    for now_ms in range(10_000):
        follower.record_fetch(0, 0, leader_end_offset=now_ms + 1, broker_epoch=1, now_ms=now_ms)
    assert len(follower._leader_ends) <= MAX_LEADER_ENDS
    follower.record_fetch(5_000, 0, leader_end_offset=10_001, broker_epoch=1, now_ms=10_000)
    assert 4_600 < follower.lag_start_ms <= 5_000, "as exact as the longest lag of a member has to be"


def test_who_has_joined_has_time_to_catch_up() -> None:
    state = three()
    state.update((1, 2, 3), (1, 2), 1, now_ms=0)
    fetched(state, 3, 9, 10, now_ms=10 * LAG_MS)
    state.update((1, 2, 3), (1, 2, 3), 2, now_ms=10 * LAG_MS)
    fetched(state, 2, 20, 20, now_ms=11 * LAG_MS)
    assert state.target_isr((2, 3), 9, 20, LAG_MS, now_ms=11 * LAG_MS) is None
    fetched(state, 2, 30, 30, now_ms=11 * LAG_MS + 1)
    assert state.target_isr((2, 3), 9, 30, LAG_MS, now_ms=11 * LAG_MS + 1) == (1, 2)


def test_the_first_fetch_of_an_epoch_says_nothing_about_the_time_before() -> None:
    follower = Follower(2, caught_up_ms=0)
    follower.record_fetch(0, 0, leader_end_offset=10, broker_epoch=1, now_ms=100)
    assert follower.caught_up_ms == 0


def test_records_are_deleted_when_they_are_gone_from_every_living_replica() -> None:
    state = three()
    for node_id, log_start in ((2, 5), (3, 8)):
        state.followers[node_id].record_fetch(10, log_start, 10, 1, 0)
    assert state.low_watermark(9, alive=(2, 3)) == 5
    assert state.low_watermark(9, alive=(3,)) == 8
    assert state.low_watermark(7, alive=()) == 7


@given(st.frozensets(st.integers(1, 5)), st.none() | st.frozensets(st.integers(1, 5)))
def test_the_maximal_isr_contains_every_state_that_may_be_true(
    isr: frozenset[int], proposed: frozenset[int] | None
) -> None:
    assert maximal_isr(isr, proposed) >= isr
    assert maximal_isr(isr, proposed) >= (proposed or frozenset())


@given(st.lists(st.integers(-1, 100), min_size=1), st.integers(0, 4), st.integers(1, 4))
def test_what_is_committed_is_in_every_log(ends: list[int], in_sync: int, wanted: int) -> None:
    committed = committed_offset(ends, in_sync, wanted)
    assert committed == -1 or all(end >= committed for end in ends)
    assert (committed == -1) == (in_sync < wanted or min(ends) == -1)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_a_replica_that_may_join_has_all_committed_records(end: int, committed: int, start: int) -> None:
    assert may_join(end, committed, start) == (end >= committed and end >= start)


class AnyOrder(RuleBasedStateMachine):
    """A leader, followers that fetch, and a controller that may decide otherwise or answer late.

    What must hold in any order of events: whoever may be in the ISR, as the controller sees it, has
    everything that is committed.
    """

    @initialize(isr=st.sets(st.sampled_from(OTHERS)), start=st.integers(0, 3))
    def begin(self, isr: set[int], start: int) -> None:
        self.now_ms = 0
        self.log_end = start
        self.true_isr: tuple[int, ...] = (ME, *sorted(isr))
        self.true_epoch = 0
        self.held = dict.fromkeys(OTHERS, 0) | {ME: start}
        for member in isr:  # the election promises no more than what was committed before, here 0
            self.held[member] = 0
        self.state = InSyncReplicas(ME, start, (ME, *OTHERS), self.true_isr, 0, 0)
        self.high_watermark = 0
        self.asked: list[tuple[int, tuple[int, ...]]] = []

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.log_end += count
        self.held[ME] = self.log_end

    @rule(node=st.sampled_from(OTHERS), share=st.floats(0, 1))
    def copy_and_fetch(self, node: int, share: float) -> None:
        self.held[node] += int((self.log_end - self.held[node]) * share)
        fetched(self.state, node, self.held[node], self.log_end, self.now_ms)
        self._commit()

    @rule(by_ms=st.integers(0, 2 * LAG_MS))
    def wait(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self._commit()

    @rule(alive=st.sets(st.sampled_from(OTHERS)))
    def propose(self, alive: set[int]) -> None:
        wanted = self.state.target_isr(alive, self.high_watermark, self.log_end, LAG_MS, self.now_ms)
        if wanted is not None:
            self.state.propose(wanted)
            self.asked.append((self.state.partition_epoch, wanted))

    @precondition(lambda self: self.asked)
    @rule(is_heard=st.booleans())
    def the_controller_decides(self, is_heard: bool) -> None:
        epoch, wanted = self.asked.pop(0)
        if epoch == self.true_epoch:  # compare-and-set
            self.true_isr, self.true_epoch = wanted, epoch + 1
        if is_heard:
            self._hear()

    @precondition(lambda self: len(self.true_isr) > 1)
    @rule(data=st.data())
    def the_controller_fences_a_member(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.true_isr[1:]))
        self.true_isr = tuple(each for each in self.true_isr if each != gone)
        self.true_epoch += 1

    @rule()
    def _hear(self) -> None:
        self.state.update((ME, *OTHERS), self.true_isr, self.true_epoch, self.now_ms)
        self._commit()

    def _commit(self) -> None:
        soon = self.state.joining_soon(OTHERS, self.log_end, LAG_MS, self.now_ms)
        committed = self.state.high_watermark(self.log_end, 1, soon)
        self.high_watermark = max(self.high_watermark, committed)

    @invariant()
    def every_possible_leader_has_what_is_committed(self) -> None:
        assert all(self.held[member] >= self.high_watermark for member in self.true_isr)


TestAnyOrder = AnyOrder.TestCase
