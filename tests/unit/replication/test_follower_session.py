"""The two sides of a follower's fetch session agree on what is fetched."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla.api.support.fetch_sessions import FetchSessions
from ottla.common.clock import ManualClock
from ottla.protocol.errors import KafkaError
from ottla.protocol.fetch_codec import FetchPartition, decode_fetch_request
from ottla.protocol.replica_fetch import VERSION, FetchLimits, encode_replica_fetch
from ottla.replication.fetch_session import FollowerSession, Key

TOPICS = [UUID(int=1), UUID(int=2)]
WANTED = st.dictionaries(st.tuples(st.sampled_from(TOPICS), st.integers(0, 2)), st.integers(0, 3), max_size=6)


def asked(wanted: dict[Key, int]) -> dict[Key, FetchPartition]:
    return {key: FetchPartition(key[1], 4, offset, 3, 0, 1000) for key, offset in wanted.items()}


@given(st.lists(st.tuples(WANTED, st.sampled_from(["fine", "lost", "evicted", "full"])), max_size=8))
def test_the_leader_knows_what_is_wanted_whatever_gets_lost(
    steps: list[tuple[dict[Key, int], str]],
) -> None:
    leader, follower = FetchSessions(10, ManualClock()), FollowerSession()
    for wanted, what_happens in steps:
        if what_happens == "evicted":
            leader = FetchSessions(10, ManualClock())
        elif what_happens == "full":
            leader = FetchSessions(0, ManualClock())
        session, news, forgotten = follower.request(asked(wanted))
        body = encode_replica_fetch(2, 20, FetchLimits(500, 1, 1 << 20), session, news, forgotten)
        try:
            found, _ = leader.open(decode_fetch_request(memoryview(body), 0, VERSION), by_id=True)
        except KafkaError:
            follower.start_over()
            continue
        known = {key: each.fetch_offset for key, each in found.partitions.items()}
        assert known == wanted
        if what_happens == "lost":
            follower.start_over()
        else:
            follower.answered(found.session_id)


def test_only_what_changed_is_sent() -> None:
    leader, follower = FetchSessions(10, ManualClock()), FollowerSession()
    first, second = (TOPICS[0], 0), (TOPICS[0], 1)
    session, news, forgotten = follower.request(asked({first: 1, second: 1}))
    assert session == (0, 0)
    assert [each.partition for each in news[TOPICS[0]]] == [0, 1]
    body = encode_replica_fetch(2, 20, FetchLimits(500, 1, 1 << 20), session, news, forgotten)
    found, _ = leader.open(decode_fetch_request(memoryview(body), 0, VERSION), by_id=True)
    follower.answered(found.session_id)
    assert follower.request(asked({first: 1, second: 1})) == ((found.session_id, 1), {}, {})
    follower.answered(found.session_id)
    session, news, forgotten = follower.request(asked({second: 2}))
    assert session == (found.session_id, 2)
    assert [each.fetch_offset for each in news[TOPICS[0]]] == [2]
    assert forgotten == {TOPICS[0]: [0]}
