"""Fetch sessions: what is remembered between two fetches of one client."""

from uuid import UUID

import pytest

from ottla.api.support import fetch_sessions
from ottla.api.support.fetch_sessions import EVICT_AFTER_MS, FetchSession, FetchSessions
from ottla.common.clock import ManualClock
from ottla.protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    InvalidRequest,
)
from ottla.protocol.fetch_codec import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

TOPIC = UUID(int=7)


def fetching(
    *indexes: int, session_id: int = 0, epoch: int = 0, offset: int = 0, forgotten: tuple[int, ...] = ()
) -> FetchRequest:
    partitions = [FetchPartition(index, -1, offset, -1, -1, 1024) for index in indexes]
    return FetchRequest(
        replica_id=-1,
        replica_epoch=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(None, TOPIC, partitions)] if partitions else [],
        forgotten=[ForgottenTopic(None, TOPIC, forgotten)] if forgotten else [],
        rack_id="",
        cluster_id=None,
    )


def indexes_of(session: FetchSession) -> list[int]:
    return [wanted.index for wanted in session.wanted()]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sessions(clock: ManualClock) -> FetchSessions:
    return FetchSessions(slots=2, clock=clock)


def test_a_session_remembers_its_partitions(sessions: FetchSessions) -> None:
    first, continued = sessions.open(fetching(0, 1), by_id=True)
    assert not continued
    assert first.session_id > 0
    again, continued = sessions.open(fetching(session_id=first.session_id, epoch=1), by_id=True)
    assert continued
    assert indexes_of(again) == [0, 1]


def test_partitions_are_added_updated_and_forgotten(sessions: FetchSessions) -> None:
    session, _ = sessions.open(fetching(0, 1), by_id=True)
    sessions.open(
        fetching(1, 2, session_id=session.session_id, epoch=1, offset=9, forgotten=(0,)), by_id=True
    )
    assert indexes_of(session) == [1, 2]
    assert [wanted.fetch_offset for wanted in session.wanted()] == [9, 9]


def test_a_repeated_epoch_is_refused(sessions: FetchSessions) -> None:
    session, _ = sessions.open(fetching(0), by_id=True)
    sessions.open(fetching(session_id=session.session_id, epoch=1), by_id=True)
    with pytest.raises(InvalidFetchSessionEpoch):
        sessions.open(fetching(session_id=session.session_id, epoch=1), by_id=True)


def test_an_unknown_session_is_refused(sessions: FetchSessions) -> None:
    with pytest.raises(FetchSessionIdNotFound):
        sessions.open(fetching(session_id=12345, epoch=3), by_id=True)


def test_pitfall_11_a_session_keeps_to_one_kind_of_topic_key(sessions: FetchSessions) -> None:
    session, _ = sessions.open(fetching(0), by_id=True)
    with pytest.raises(FetchSessionTopicIdError):
        sessions.open(fetching(session_id=session.session_id, epoch=1), by_id=False)


def test_the_final_epoch_ends_a_session(sessions: FetchSessions) -> None:
    session, _ = sessions.open(fetching(0), by_id=True)
    last, continued = sessions.open(fetching(0, session_id=session.session_id, epoch=-1), by_id=True)
    assert (last.session_id, continued, len(sessions)) == (0, False, 0)


def test_a_full_cache_serves_without_a_session(sessions: FetchSessions) -> None:
    for _ in range(2):
        sessions.open(fetching(0), by_id=True)
    refused, _ = sessions.open(fetching(0), by_id=True)
    assert refused.session_id == 0
    assert indexes_of(refused) == [0]


def test_the_longest_unused_session_makes_room(sessions: FetchSessions, clock: ManualClock) -> None:
    oldest, _ = sessions.open(fetching(0), by_id=True)
    newer, _ = sessions.open(fetching(0), by_id=True)
    clock.advance(EVICT_AFTER_MS)
    sessions.open(fetching(session_id=newer.session_id, epoch=1), by_id=True)
    latest, _ = sessions.open(fetching(0), by_id=True)
    assert latest.session_id > 0
    sessions.open(fetching(session_id=newer.session_id, epoch=2), by_id=True)
    with pytest.raises(FetchSessionIdNotFound):
        sessions.open(fetching(session_id=oldest.session_id, epoch=1), by_id=True)


def test_what_was_served_goes_to_the_back(sessions: FetchSessions) -> None:
    session, _ = sessions.open(fetching(0, 1, 2), by_id=True)
    session.move_to_back([next(iter(session.wanted()))])
    assert indexes_of(session) == [1, 2, 0]


def test_pitfall_16_news_is_reported_once(sessions: FetchSessions) -> None:
    session, _ = sessions.open(fetching(0), by_id=True)
    wanted = next(iter(session.wanted()))
    assert wanted.has_changed(5, 0)
    assert not wanted.has_changed(5, 0)
    assert wanted.has_changed(6, 0)
    assert wanted.has_changed(6, 2)


def test_a_fetch_of_too_many_partitions_is_refused(
    sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 3)
    sessions.open(fetching(0, 1, 2), by_id=True)
    with pytest.raises(InvalidRequest):
        sessions.open(fetching(0, 1, 2, 3), by_id=True)


@pytest.mark.parametrize("limit", ["MAX_PARTITIONS", "MAX_CACHED_PARTITIONS"])
def test_a_session_cannot_grow_past_what_may_be_kept(
    sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    session, _ = sessions.open(fetching(0, 1), by_id=True)
    monkeypatch.setattr(fetch_sessions, limit, 3)
    sessions.open(fetching(2, session_id=session.session_id, epoch=1), by_id=True)
    with pytest.raises(FetchSessionIdNotFound):
        sessions.open(fetching(3, session_id=session.session_id, epoch=2), by_id=True)
    assert len(sessions) == 0
    again, _ = sessions.open(fetching(0, 1), by_id=True)
    assert again.session_id > 0, "what the large session held is free again"


def test_a_session_of_another_principal_is_not_found(sessions: FetchSessions) -> None:
    session, _ = sessions.open(fetching(0), by_id=True, owner="User:alice")
    for epoch in (0, -1):
        sessions.open(fetching(0, session_id=session.session_id, epoch=epoch), by_id=True, owner="User:bob")
    with pytest.raises(FetchSessionIdNotFound):
        sessions.open(fetching(session_id=session.session_id, epoch=1), by_id=True, owner="User:bob")
    sessions.open(fetching(session_id=session.session_id, epoch=1), by_id=True, owner="User:alice")
