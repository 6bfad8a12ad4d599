"""A follower finds where its log parts from its leader's, whatever happened to the two before."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.log.epoch_cache import EpochCache
from ottla.replication.leader_epochs import EpochEnd, diverges, truncation_offset

Entries = list[int]
"""A log as the leader epochs of its records, which never go down."""


def epochs_of(log: Entries) -> EpochCache:
    cache = EpochCache()
    for offset, epoch in enumerate(log):
        cache.assign(epoch, offset)
    return cache


def epoch_end(log: Entries, epoch: int, leader_epoch: int) -> EpochEnd:
    """Return what a leader answers: its own epoch has begun, even if it has written nothing yet."""
    latest = log[-1] if log else -1
    if epoch == leader_epoch or latest < epoch < leader_epoch:
        return EpochEnd(epoch if epoch == leader_epoch or latest < 0 else latest, len(log))
    return EpochEnd(*epochs_of(log).end_offset_for(epoch, len(log)))


def catch_up(leader: Entries, follower: Entries, leader_epoch: int) -> tuple[Entries, int]:
    """Truncate as a follower does; return what is left of its log, and after how many rounds."""
    rounds = 0
    while follower:
        found = epoch_end(leader, follower[-1], leader_epoch)
        if not diverges(follower[-1], len(follower), found):
            break
        own = EpochEnd(*epochs_of(follower).end_offset_for(found.epoch, len(follower)))
        target = truncation_offset(found, own, len(follower), high_watermark=0)
        assert target < len(follower), "each round gets further"
        follower = follower[:target]
        rounds += 1
    return follower, rounds


def common(one: Entries, other: Entries) -> int:
    """Return how many records two logs share; an epoch's records are written once, by one leader."""
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return shared


@st.composite
def histories(draw: st.DrawFn) -> tuple[Entries, Entries, int]:
    """Draw the logs of two replicas: in each epoch a leader appends, and some follow it for a while."""
    logs: list[Entries] = [[], [], []]
    epoch = 0
    for epoch in range(draw(st.integers(1, 6))):
        leader = draw(st.integers(0, 2))
        logs[leader] = logs[leader] + [epoch] * draw(st.integers(0, 3))
        for follower in range(3):
            if follower != leader and draw(st.booleans()):
                kept = common(logs[leader], logs[follower])
                end = draw(st.integers(kept, len(logs[leader])))
                logs[follower] = logs[leader][:end]
    return logs[0], logs[1], epoch + 1


@given(histories())
def test_truncation_leaves_exactly_what_both_logs_have(history: tuple[Entries, Entries, int]) -> None:
    leader, follower, leader_epoch = history
    left, rounds = catch_up(leader, follower, leader_epoch)
    assert left == leader[: len(left)], "nothing that the leader does not have"
    assert len(left) == common(leader, follower), "and nothing less"
    assert rounds <= len(set(follower)), "at most one round for each epoch"


def test_what_is_above_the_high_watermark_is_kept_if_the_leader_has_it() -> None:
    same = EpochEnd(3, 10)
    assert truncation_offset(same, same, log_end_offset=10, high_watermark=2) == 10


def test_what_is_below_the_high_watermark_goes_if_the_leader_has_something_else() -> None:
    assert truncation_offset(EpochEnd(2, 5), EpochEnd(2, 8), log_end_offset=12, high_watermark=12) == 5


def test_an_epoch_that_only_the_leader_has_sends_the_follower_back_before_it() -> None:
    assert truncation_offset(EpochEnd(4, 9), EpochEnd(3, 6), log_end_offset=12, high_watermark=12) == 6


def test_without_any_epoch_in_common_the_leaders_end_decides() -> None:
    assert truncation_offset(EpochEnd(1, 4), EpochEnd(-1, -1), log_end_offset=12, high_watermark=0) == 4
