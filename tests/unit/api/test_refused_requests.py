"""Requests for a controller that cannot change anything: clients are told why, and keep their connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast

import pytest
from kio.schema.alter_configs.v2 import AlterConfigsRequest
from kio.schema.alter_configs.v2.request import AlterConfigsResource
from kio.schema.create_partitions.v3 import CreatePartitionsRequest
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
from kio.schema.create_topics.v7 import CreateTopicsRequest
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.delete_topics.v6 import DeleteTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.elect_leaders.v2 import ElectLeadersRequest
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.request import AlterConfigsResource as IncrementalResource
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.controller.writer import MetadataWriter
from ottla.protocol.errors import KafkaError, NotController, RequestTimedOut
from ottla.protocol.types import TopicName, i8, i16, i32

SOON = cast(Any, timedelta(seconds=1))
NAMES = ("a", "b")
TOPIC = i8(2)

CREATE = CreateTopicsRequest(
    topics=tuple(
        CreatableTopic(
            name=TopicName(name), num_partitions=i32(1), replication_factor=i16(1), assignments=(), configs=()
        )
        for name in NAMES
    ),
    timeout=SOON,
    validate_only=False,
)
DELETE = DeleteTopicsRequest(
    topics=tuple(DeleteTopicState(name=TopicName(name), topic_id=None) for name in ("orders", "bills")),
    timeout=SOON,
)
GROW = CreatePartitionsRequest(
    topics=tuple(
        CreatePartitionsTopic(name=TopicName(name), count=i32(9), assignments=None)
        for name in ("orders", "bills")
    ),
    timeout=SOON,
    validate_only=False,
)
ALTER = AlterConfigsRequest(
    resources=tuple(
        AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=())
        for name in ("orders", "bills")
    ),
    validate_only=False,
)
ALTER_SOME = IncrementalAlterConfigsRequest(
    resources=tuple(
        IncrementalResource(resource_type=TOPIC, resource_name=name, configs=())
        for name in ("orders", "bills")
    ),
    validate_only=False,
)


@pytest.fixture(params=[None, object()], ids=["alone", "in-a-cluster"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[CoordinatorBench]:
    made = CoordinatorBench()
    await made.start()
    await made.create_topics("orders", "bills")
    made.services.peers = request.param
    yield made
    await made.stop()


def refuse_everything(monkeypatch: pytest.MonkeyPatch, error: KafkaError) -> None:
    async def change(_self: MetadataWriter, _decide: object) -> tuple[object, ...]:
        raise error

    monkeypatch.setattr(MetadataWriter, "change", change)


def told(response: Any) -> list[tuple[ErrorCode, str]]:
    items = next(
        getattr(response, name) for name in ("topics", "responses", "results") if hasattr(response, name)
    )
    return [(each.error_code, each.error_message) for each in items]


@pytest.mark.parametrize(
    "asked", [CREATE, DELETE, GROW, ALTER, ALTER_SOME], ids=lambda each: type(each).__name__
)
async def test_every_item_learns_why_nothing_can_be_changed(
    bench: CoordinatorBench, monkeypatch: pytest.MonkeyPatch, asked: Any
) -> None:
    refuse_everything(monkeypatch, RequestTimedOut("ZooKeeper does not answer"))
    response = await bench.ask(asked)
    assert told(response) == [(ErrorCode.request_timed_out, "ZooKeeper does not answer")] * 2


async def test_without_a_controller_every_item_gets_an_error_after_a_while(
    bench: CoordinatorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.services.peers = object()
    refuse_everything(monkeypatch, NotController("another broker is it"))
    monkeypatch.setattr("ottla.api.support.forwarding.TIMEOUT_MS", 0)
    assert told(await bench.ask(CREATE)) == [(ErrorCode.not_controller, "another broker is it")] * 2


async def test_where_a_response_has_a_place_for_it_the_error_is_there(
    bench: CoordinatorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_everything(monkeypatch, RequestTimedOut("ZooKeeper does not answer"))
    response = await bench.ask(ElectLeadersRequest(election_type=i8(0), topic_partitions=None, timeout=SOON))
    assert response.error_code == ErrorCode.request_timed_out
