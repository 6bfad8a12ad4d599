import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.api.dispatcher import SlowRequests
from ottla.api.support.context import RequestContext
from ottla.api.support.request_times import RequestTimes
from ottla.common.clock import ManualClock
from ottla.protocol.api_keys import ApiKey


def request(api_key: int, name: str, client_id: str | None = "web\n2") -> RequestContext:
    peer = cast(Any, SimpleNamespace(peer="10.0.0.7:4711"))
    return RequestContext(cast(Any, None), peer, api_key, 9, 1, client_id, RequestTimes(name, 9))


@pytest.fixture
def slow() -> SlowRequests:
    return SlowRequests(ManualClock(), 100)


def test_a_slow_request_is_named_with_who_sent_it_and_where_the_time_went(slow, caplog):
    slow.note(request(ApiKey.PRODUCE, "Produce"), 0.004, 1.204)
    assert caplog.messages == [
        "10.0.0.7:4711: slow Produce v9 of client 'web\\n2': 1204 ms, "
        "4 ms on the event loop and 1200 ms waiting"
    ]
    (record,) = caplog.records
    assert (record.api, record.client_id, record.total_ms, record.local_ms, record.waiting_ms) == (
        "Produce",
        "web\n2",
        1204,
        4,
        1200,
    )
    assert (record.name, record.levelno) == ("ottla.slow", logging.WARNING)


def test_what_clients_ask_to_wait_for_is_not_slow(slow, caplog):
    slow.note(request(ApiKey.FETCH, "FetchConsumer"), 0.001, 30.0)
    slow.note(request(ApiKey.JOIN_GROUP, "JoinGroup"), 0.001, 3.0)
    assert (slow.count, caplog.records) == (0, [])
    slow.note(request(ApiKey.FETCH, "FetchConsumer"), 0.2, 30.0)
    assert slow.count == 1


def test_a_flood_of_slow_requests_is_counted_and_not_all_written(slow, caplog):
    for _ in range(1_000):
        slow.note(request(ApiKey.PRODUCE, "Produce"), 0.0, 1.0)
    assert slow.count == 1_000
    assert len(caplog.records) == 20


def test_a_negative_limit_notes_nothing(slow):
    slow.set_limit(-1)
    slow.note(request(ApiKey.PRODUCE, "Produce"), 60.0, 60.0)
    assert slow.count == 0
