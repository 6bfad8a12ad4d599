"""Quotas of changes and of the event loop, through the dispatcher and the real controller."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.create_partitions.v3 import CreatePartitionsRequest
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
from kio.schema.create_topics.v7 import CreateTopicsRequest
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.delete_topics.v6 import DeleteTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.describe_configs.v4 import DescribeConfigsRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsResource
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import MetadataRequest
from kio.schema.metadata.v12.request import MetadataRequestTopic
from tests.unit.api.conftest import AdminBench

from ottla.api import dispatcher
from ottla.api.describe_configs import RESOURCES_PER_PART
from ottla.api.dispatcher import Dispatcher
from ottla.api.support.client_quotas import ClientQuotas
from ottla.api.support.context import RequestContext
from ottla.api.support.request_times import RequestTimes
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import RequestHeader, encode_request_header, encode_response_header
from ottla.protocol.schema.messages import request_encoder, response_decoder
from ottla.protocol.types import TopicName, i8, i16, i32
from ottla.security.authorizer import Authorizer
from ottla.security.quota_rates import QuotaWindows

EXCEEDED, FINE = ErrorCode.throttling_quota_exceeded, ErrorCode.none
MINUTE = cast(Any, timedelta(minutes=1))


class Client:
    """A client of the dispatcher, and for how long it was muted."""

    principal = "User:alice"
    is_token_authenticated = False
    sasl = None
    peer, host, listener_name, software = "client:1", "10.0.0.1", "PLAINTEXT", ""
    has_fetched = has_queued_request = False

    def __init__(self, bench: AdminBench, **quotas: float) -> None:
        self.bench = bench
        self.muted_ms: list[int] = []
        services = bench.services
        services.peers = None
        services.throttles, services.throttle_ms = Counter(), Counter()
        made = ClientQuotas(bench.clock, QuotaWindows(), QuotaWindows())
        services.quotas = made.apply({(("user", "alice"),): quotas})
        self._dispatcher = Dispatcher(cast(Any, services))

    def mute(self, duration_ms: int) -> None:
        self.muted_ms.append(duration_ms)

    async def ask(self, request: Any, version: int) -> Any:
        """Return the response, in the class of its version."""
        api_key, newest = int(request.__api_key__), int(request.__version__)
        header = encode_request_header(RequestHeader(api_key, version, 7, "app"))
        frame = bytearray(header + request_encoder(api_key, version, newest)(request))
        reply = self._dispatcher.handle(cast(Any, self), memoryview(frame))
        if not isinstance(reply, bytes):
            reply = await cast(Any, reply)
        at = 4 + len(encode_response_header(api_key, version, 7))
        return response_decoder(api_key, version, version)(reply, at)


def new_topics(*partitions: int, start: int = 0, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(
                name=TopicName(f"t{start + number}"),
                num_partitions=i32(count),
                replication_factor=i16(1),
                assignments=(),
                configs=(),
            )
            for number, count in enumerate(partitions)
        ),
        timeout=MINUTE,
        validate_only=validate_only,
    )


def codes(response: Any) -> list[ErrorCode]:
    results = getattr(response, "topics", None) or getattr(response, "responses", None) or response.results
    return [each.error_code for each in results]


def throttle_ms(response: Any) -> int:
    return cast(int, response.throttle_time // timedelta(milliseconds=1))


async def test_topics_over_the_quota_are_refused_with_the_time_to_wait(bench: AdminBench) -> None:
    client = Client(bench, controller_mutation_rate=1)
    response = await client.ask(new_topics(10, 4, 5), 7)
    assert codes(response) == [FINE, FINE, EXCEEDED]
    assert throttle_ms(response) == 3_000
    assert client.muted_ms == [3_000]
    assert set(bench.image.topics) == {"t0", "t1"}
    bench.clock.advance(3_000)
    response = await client.ask(new_topics(5, start=2), 7)
    assert codes(response) == [FINE]
    assert throttle_ms(response) == 0


async def test_in_older_versions_topics_are_created_and_the_connection_is_throttled(
    bench: AdminBench,
) -> None:
    client = Client(bench, controller_mutation_rate=1)
    response = await client.ask(new_topics(10, 4, 5), 5)
    assert codes(response) == [FINE] * 3
    assert throttle_ms(response) == 8_000
    assert client.muted_ms == [8_000]
    assert bench.services.throttles == {"controller_mutation_rate": 1}


async def test_topics_that_exist_cost_nothing(bench: AdminBench) -> None:
    client = Client(bench, controller_mutation_rate=1)
    await client.ask(new_topics(11), 7)
    for _ in range(3):
        response = await client.ask(new_topics(11), 7)
        assert codes(response) == [ErrorCode.topic_already_exists]
        assert throttle_ms(response) == 0


async def test_topics_that_are_refused_cost_nothing(bench: AdminBench) -> None:
    client = Client(bench, controller_mutation_rate=1)
    for version in (5, 7):
        request = new_topics(11, start=10)
        wrong = replace(request, topics=(replace(request.topics[0], replication_factor=i16(9)),))
        for _ in range(3):
            response = await client.ask(wrong, version)
            assert codes(response) == [ErrorCode.invalid_replication_factor]
            assert throttle_ms(response) == 0
    assert codes(await client.ask(new_topics(11), 7)) == [FINE]


async def test_topics_that_metadata_creates_count_and_metadata_is_not_throttled(bench: AdminBench) -> None:
    client = Client(bench, controller_mutation_rate=0.1)  # one topic at once, and a bit more
    bench.services.recently_fenced_brokers = SimpleNamespace(still_listed=lambda *_: frozenset())

    async def look_for(name: str) -> ErrorCode:
        topic = MetadataRequestTopic(topic_id=None, name=TopicName(name))
        request = MetadataRequest(topics=(topic,), include_topic_authorized_operations=False)
        response = await client.ask(request, 12)
        assert throttle_ms(response) == 0
        return cast(ErrorCode, response.topics[0].error_code)

    assert await look_for("one") is not ErrorCode.unknown_topic_or_partition
    await look_for("two")
    assert set(bench.image.topics) == {"one", "two"}
    assert await look_for("three") is ErrorCode.unknown_topic_or_partition
    assert set(bench.image.topics) == {"one", "two"}
    assert codes(await client.ask(new_topics(1), 7)) == [EXCEEDED]
    bench.clock.advance(11_000)
    assert await look_for("three") is not ErrorCode.unknown_topic_or_partition


async def test_new_partitions_and_deletions_count_too(bench: AdminBench) -> None:
    client = Client(bench, controller_mutation_rate=1)
    await client.ask(new_topics(1, 2), 7)
    more = CreatePartitionsRequest(
        topics=(
            CreatePartitionsTopic(name=TopicName("t0"), count=i32(20), assignments=None),
            CreatePartitionsTopic(name=TopicName("t1"), count=i32(3), assignments=None),
        ),
        timeout=MINUTE,
        validate_only=False,
    )
    response = await client.ask(more, 3)
    assert codes(response) == [FINE, EXCEEDED]
    assert throttle_ms(response) == 11_000
    delete = DeleteTopicsRequest(
        topics=(DeleteTopicState(name=TopicName("t1"), topic_id=None),), timeout=MINUTE
    )
    response = await client.ask(delete, 6)
    assert codes(response) == [EXCEEDED]
    bench.clock.advance(11_000)
    assert codes(await client.ask(delete, 6)) == [FINE]


async def test_a_client_that_uses_the_event_loop_too_much_is_throttled_for_a_window_at_most(
    bench: AdminBench,
) -> None:
    client = Client(bench, request_percentage=10)
    ctx = RequestContext(cast(Any, bench.services), cast(Any, client), ApiKey.METADATA, 12, 7, "app")
    bench.services.quotas.spent(ctx, 0.15)
    response = await client.ask(describe_topic("none"), 4)
    assert 400 <= throttle_ms(response) <= 1_000  # the time of the request itself counts too
    assert client.muted_ms == [throttle_ms(response)]
    bench.services.quotas.spent(ctx, 60.0)
    response = await client.ask(describe_topic("none"), 4)
    assert throttle_ms(response) == 1_000


async def test_the_time_of_a_request_counts_to_its_end(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most handlers do nothing before their first await."""
    client = Client(bench, request_percentage=10)
    seconds: list[float] = []
    monkeypatch.setattr(bench.services.quotas, "spent", lambda _, each: seconds.append(each))
    now = itertools.count()
    monkeypatch.setattr(dispatcher, "perf_counter", lambda: float(next(now)))
    request = DescribeConfigsRequest(
        resources=tuple(describe_topic(f"t{number}").resources[0] for number in range(120))
    )
    assert len((await client.ask(request, 4)).results) == 120
    assert len(seconds) > 120 / RESOURCES_PER_PART
    assert set(seconds) == {1.0}


async def test_a_timed_request_is_awaited_as_without_it() -> None:
    loop = asyncio.get_running_loop()
    seconds: list[float] = []

    async def work(future: asyncio.Future[int]) -> int:
        try:
            return await future
        except ValueError:
            return -1

    for outcome in (7, ValueError()):
        future = loop.create_future()
        task = asyncio.ensure_future(dispatcher.timed(work(future), seconds.append))
        await asyncio.sleep(0)
        if isinstance(outcome, int):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)
        assert await task == (outcome if isinstance(outcome, int) else -1)
    future = loop.create_future()
    task = asyncio.ensure_future(dispatcher.timed(work(future), seconds.append))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert future.cancelled()
    assert len(seconds) == 6


def describe_topic(name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=i8(2), resource_name=name, configuration_keys=None)
    return DescribeConfigsRequest(resources=(resource,))


async def test_requests_between_brokers_have_no_quota(bench: AdminBench) -> None:
    client = Client(bench, request_percentage=1, consumer_byte_rate=1)
    quotas = bench.services.quotas
    for api_key in (ApiKey.ENVELOPE, ApiKey.ALTER_PARTITION, ApiKey.WRITE_TXN_MARKERS):
        ctx = RequestContext(cast(Any, bench.services), cast(Any, client), api_key, 0, 7, "app")
        quotas.spent(ctx, 100.0)
        response = SimpleNamespace()
        assert quotas.throttled(ctx, response) is response
    times = RequestTimes("FetchFollower", 17)
    ctx = RequestContext(cast(Any, bench.services), cast(Any, client), ApiKey.FETCH, 17, 7, "app", times)
    quotas.spent(ctx, 100.0)
    assert throttle_ms(await client.ask(describe_topic("none"), 4)) == 0
    assert client.muted_ms == []


async def test_a_client_that_sends_what_only_brokers_may_is_throttled(bench: AdminBench) -> None:
    client = Client(bench, request_percentage=1)
    bench.services.authorizer = Authorizer({"User:broker"})
    quotas = bench.services.quotas
    ctx = RequestContext(cast(Any, bench.services), cast(Any, client), ApiKey.MEASURE_LAG, 0, 7, "app")
    quotas.spent(ctx, 100.0)
    quotas.throttled(ctx, SimpleNamespace())
    assert client.muted_ms == [1_000]
    client.principal = "User:broker"
    quotas.spent(ctx, 100.0)
    quotas.throttled(ctx, SimpleNamespace())
    assert client.muted_ms == [1_000]


async def test_users_without_a_quota_are_not_throttled(bench: AdminBench) -> None:
    client = Client(bench, controller_mutation_rate=1)
    client.principal = "User:bob"
    assert codes(await client.ask(new_topics(100, 100), 7)) == [FINE, FINE]
    assert bench.services.quotas.apply({}) is None, "without quotas there is nothing to ask"
