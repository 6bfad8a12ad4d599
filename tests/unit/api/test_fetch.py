"""Fetch: what a session is told, and what it is spared."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic

from ottla.api.fetch import fetch
from ottla.api.support.context import RequestContext
from ottla.api.support.fetch_sessions import FetchSessions
from ottla.common.clock import ManualClock
from ottla.log.log_types import LogRead
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import FetchSessionIdNotFound
from ottla.protocol.schema.messages import request_encoder, response_decoder
from ottla.protocol.types import TopicName, i8, i32, i64
from ottla.replication.counters import TopicTraffic

VERSION = 12
SIZE_AND_HEADER_BYTES = 9


@dataclass
class PretendedPartition:
    """An empty partition; `diverging` is what it says to a reader that names an epoch."""

    high_watermark: int = 10
    last_stable_offset: int = 10
    log_start_offset: int = 0
    diverging: tuple[int, int] | None = None
    is_leader: bool = True
    traffic: TopicTraffic = field(default_factory=TopicTraffic)

    def check_leader_epoch(self, epoch: int) -> None:
        pass

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        return self.diverging

    def read(self, offset: int, max_bytes: int, end_offset: int, at_least_one: bool) -> LogRead:
        return LogRead(b"", offset)

    def aborted_transactions_in(self, offset: int, found: LogRead) -> list[tuple[int, int]]:
        return [(7, 3), (9, 5)]


class Bench:
    """One client with one session on one partition."""

    def __init__(self) -> None:
        self.partition = PretendedPartition()
        self.connection = SimpleNamespace(has_fetched=False, principal="User:alice")
        self._session_id = self._epoch = 0
        self._services = SimpleNamespace(
            partitions=SimpleNamespace(get=lambda topic, index: self.partition),
            fetch_sessions=FetchSessions(10, ManualClock()),
            quotas=None,
            config=SimpleNamespace(fetch_max_bytes=1 << 20),
            authorizer=None,
        )

    def fetch(self, isolation_level: int = 0) -> list[Any]:
        """Fetch once more, and return the partitions of the answer."""
        partition = FetchPartition(
            partition=i32(0),
            fetch_offset=i64(10),
            last_fetched_epoch=i32(3),
            partition_max_bytes=i32(1024),
        )
        request = FetchRequest(
            max_wait=cast(Any, timedelta(0)),
            min_bytes=i32(0),
            max_bytes=i32(1024),
            isolation_level=i8(isolation_level),
            session_id=i32(self._session_id),
            session_epoch=i32(self._epoch),
            topics=(FetchTopic(topic=TopicName("orders"), partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        frame = request_encoder(ApiKey.FETCH, VERSION, VERSION)(request)
        ctx = RequestContext(
            cast(Any, self._services), cast(Any, self.connection), ApiKey.FETCH, VERSION, 7, "test"
        )
        reply = cast(Any, fetch(memoryview(frame), 0, ctx))
        data = b"".join(reply) if isinstance(reply, (list, tuple)) else reply
        response: Any = response_decoder(ApiKey.FETCH, VERSION, VERSION)(data, SIZE_AND_HEADER_BYTES)
        self._session_id, self._epoch = response.session_id, self._epoch + 1
        self.error_code = response.error_code
        return [each for topic in response.responses for each in topic.partitions]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_session_hears_of_a_partition_once_while_nothing_changes(bench: Bench) -> None:
    assert [each.high_watermark for each in bench.fetch()] == [10]
    assert bench.fetch() == []
    bench.partition.high_watermark = 11
    assert [each.high_watermark for each in bench.fetch()] == [11]
    assert bench.fetch() == []


def test_a_session_learns_that_its_log_has_diverged_until_it_moves(bench: Bench) -> None:
    bench.fetch()
    bench.partition.diverging = (2, 7)
    for _ in range(2):
        (answer,) = bench.fetch()
        assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (2, 7)
    bench.partition.diverging = None
    assert bench.fetch() == []


def test_a_session_is_not_continued_by_another_principal(bench: Bench) -> None:
    bench.fetch()
    bench.connection.principal = "User:bob"
    assert bench.fetch() == []
    assert bench.error_code == FetchSessionIdNotFound().code


def test_readers_of_committed_records_hear_of_aborted_transactions(bench: Bench) -> None:
    (answer,) = bench.fetch(isolation_level=1)
    aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions]
    assert aborted == [(7, 3), (9, 5)]


def test_the_connection_is_known_to_be_a_consumers(bench: Bench) -> None:
    bench.fetch()
    assert bench.connection.has_fetched


def test_readers_of_everything_do_not(bench: Bench) -> None:
    (answer,) = bench.fetch()
    assert answer.aborted_transactions is None


def test_readers_of_committed_records_learn_where_those_end(bench: Bench) -> None:
    bench.partition.last_stable_offset = 4
    (answer,) = bench.fetch(isolation_level=1)
    assert (answer.last_stable_offset, answer.high_watermark) == (4, 10)


def test_an_isolation_level_that_does_not_exist_is_refused(bench: Bench) -> None:
    assert bench.fetch(isolation_level=7) == []
    assert bench.error_code == ErrorCode.invalid_request
