"""Whom a coordinator asks about partitions that it has no replica of, and what it makes of the answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kio.schema.errors import ErrorCode

from ottla.coordinator.group.records import OffsetValue
from ottla.coordinator.lag import LatestOffsets
from ottla.metrics import remote_lag
from ottla.metrics.remote_lag import LagQuery, lag_queries, measured, request_for, requests
from ottla.protocol.own_messages import MeasuredPartition, MeasureLagResponse
from ottla.protocol.schema.messages import (
    request_decoder,
    request_encoder,
    response_decoder,
    response_encoder,
)
from ottla.protocol.types import NO_THROTTLE, i64

KEY, VERSION = 10940, 0


def machine_with(*offsets: int | None) -> Any:
    """A machine whose group has committed these offsets in partitions 0, 1 and so on of `orders`."""
    kept = tuple(
        (index, None if offset is None else OffsetValue(offset, -1, "", 0, -1))
        for index, offset in enumerate(offsets)
    )
    return SimpleNamespace(offsets=SimpleNamespace(fetch=lambda _: (("orders", kept),)))


def asked(count: int) -> list[LagQuery]:
    return [LagQuery("billing", "orders", index, 10 * index) for index in range(count)]


def test_only_partitions_without_a_replica_here_are_asked_for() -> None:
    found = lag_queries(machine_with(5, 6, None), "billing", lambda topic, index: index == 0)
    assert list(found) == [LagQuery("billing", "orders", 1, 6)]


def test_each_leader_is_asked_once_for_all_that_it_leads() -> None:
    found = dict(requests(asked(6), lambda each: each.partition % 2 + 1))
    assert {leader: [each.partition for each in batch] for leader, batch in found.items()} == {
        1: [0, 2, 4],
        2: [1, 3, 5],
    }


def test_no_broker_is_asked_about_a_partition_without_a_leader() -> None:
    assert list(requests(asked(3), lambda each: -1)) == []


def test_one_request_asks_for_so_many_partitions_and_no_more(monkeypatch: Any) -> None:
    monkeypatch.setattr(remote_lag, "MAX_PER_REQUEST", 4)
    assert [len(batch) for _, batch in requests(asked(10), lambda each: 1)] == [4, 4, 2]


def test_results_are_in_the_order_of_the_queries_and_errors_are_skipped() -> None:
    partitions = (
        MeasuredPartition(
            error_code=ErrorCode.none, start_offset=i64(1), end_offset=i64(9), timestamp=i64(77)
        ),
        MeasuredPartition(error_code=ErrorCode.not_leader_or_follower),
        MeasuredPartition(error_code=ErrorCode.none, start_offset=i64(0), end_offset=i64(20)),
    )
    response = MeasureLagResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, partitions=partitions)
    over_the_wire = response_decoder(KEY, VERSION, VERSION)(
        memoryview(response_encoder(KEY, VERSION, VERSION)(response)), 0
    )
    assert dict(measured(asked(3), over_the_wire)) == {
        ("billing", "orders", 0): LatestOffsets(1, 9, 77),
        ("billing", "orders", 2): LatestOffsets(0, 20, None),
    }


def test_a_request_survives_the_wire() -> None:
    request = request_for(asked(3))
    assert (
        request_decoder(KEY, VERSION, VERSION)(memoryview(request_encoder(KEY, VERSION, VERSION)(request)), 0)
        == request
    )


def test_the_largest_request_is_within_what_a_broker_reads() -> None:
    batch = [LagQuery("g" * 200, "t" * 249, 2**31 - 1, 2**62)] * remote_lag.MAX_PER_REQUEST
    encoded = request_encoder(KEY, VERSION, VERSION)(request_for(batch))
    assert len(request_decoder(KEY, VERSION, VERSION)(memoryview(encoded), 0).partitions) == len(batch)


def test_what_was_reported_of_a_group_that_has_read_on_since_is_how_far_it_was_behind_then() -> None:
    assert LatestOffsets(0, 10, 77).timestamp_from(3) == LatestOffsets(0, 10, 77).timestamp_from(5) == 77
