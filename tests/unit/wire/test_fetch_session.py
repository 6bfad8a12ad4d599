"""The two sides of a fetch session agree on the partitions that are fetched."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla.api.support.fetch_sessions import FetchSession as LeaderSession
from ottla.api.support.fetch_sessions import FetchSessions
from ottla.common.clock import ManualClock
from ottla.protocol.errors import KafkaError
from ottla.protocol.fetch_client import FetchPartitionRequest, FetchSettings, Topic, encode_fetch_request
from ottla.protocol.fetch_codec import decode_fetch_request
from ottla.wire.fetch_session import FetchPosition, FetchSession, SessionRequest

Key = tuple[UUID, int]
VERSION = 17
SETTINGS = FetchSettings(500, 1, 1 << 20, 0, replica=(2, 20))
TOPICS = [UUID(int=1), UUID(int=2)]
WANTED = st.dictionaries(st.tuples(st.sampled_from(TOPICS), st.integers(0, 2)), st.integers(0, 3), max_size=6)


def asked(wanted: dict[Key, int]) -> dict[Key, FetchPosition]:
    return {
        (topic_id, index): FetchPosition(
            Topic("name", topic_id), index, FetchPartitionRequest(offset, 4, 1000, 3, 0)
        )
        for (topic_id, index), offset in wanted.items()
    }


def received(leader: FetchSessions, request: SessionRequest) -> LeaderSession:
    body = encode_fetch_request(VERSION, SETTINGS, *request)
    return leader.open(decode_fetch_request(memoryview(body), 0, VERSION), by_id=True)[0]


@given(st.lists(st.tuples(WANTED, st.sampled_from(["fine", "lost", "evicted", "full"])), max_size=8))
def test_the_leader_knows_what_is_wanted_whatever_gets_lost(
    steps: list[tuple[dict[Key, int], str]],
) -> None:
    leader, follower = FetchSessions(10, ManualClock()), FetchSession[Key]()
    for wanted, what_happens in steps:
        if what_happens == "evicted":
            leader = FetchSessions(10, ManualClock())
        elif what_happens == "full":
            leader = FetchSessions(0, ManualClock())
        try:
            found = received(leader, follower.prepare(asked(wanted), VERSION))
        except KafkaError:
            follower.reset()
            continue
        known = {key: each.fetch_offset for key, each in found.partitions.items()}
        assert known == wanted
        if what_happens == "lost":
            follower.reset()
        else:
            follower.succeeded(found.session_id)


def test_only_what_changed_is_sent() -> None:
    leader, follower = FetchSessions(10, ManualClock()), FetchSession[Key]()
    first, second = (TOPICS[0], 0), (TOPICS[0], 1)
    topic = Topic("name", TOPICS[0])
    request = follower.prepare(asked({first: 1, second: 1}), VERSION)
    assert request.session == (0, 0)
    assert list(request.topics[topic]) == [0, 1]
    found = received(leader, request)
    follower.succeeded(found.session_id)
    assert follower.prepare(asked({first: 1, second: 1}), VERSION) == ((found.session_id, 1), {}, {})
    follower.succeeded(found.session_id)
    request = follower.prepare(asked({second: 2}), VERSION)
    assert request.session == (found.session_id, 2)
    assert [each.offset for each in request.topics[topic].values()] == [2]
    assert request.forgotten == {topic: [0]}
