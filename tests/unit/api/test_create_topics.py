from datetime import timedelta
from typing import Any

import pytest
from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from kio.schema.errors import ErrorCode

import ottla.api.create_topics as module


def wanted(name: str, partitions: int = -1, replicas: int = -1, **configs: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,  # type: ignore[arg-type]
        num_partitions=partitions,  # type: ignore[arg-type]
        replication_factor=replicas,  # type: ignore[arg-type]
        assignments=(),
        configs=tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ),
    )


def request(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    timeout: Any = timedelta(seconds=30)
    return CreateTopicsRequest(topics=topics, timeout=timeout, validate_only=validate_only)


@pytest.mark.parametrize("version", range(2, 8))
async def test_topics_are_created_in_every_version(bench: Any, version: int) -> None:
    response: CreateTopicsResponse = await bench.ask(
        request(wanted("orders", 3, 1, retention_ms="5"), wanted("b a d", 1, 1)), version
    )
    good, bad = response.topics
    assert (good.name, good.error_code, good.error_message) == ("orders", ErrorCode.none, None)
    assert (bad.name, bad.error_code) == ("b a d", ErrorCode.invalid_topic_exception)
    assert bad.error_message
    topic = bench.image.topics["orders"]
    assert len(topic.partitions) == 3
    assert bench.image.topic_overrides("orders") == {"retention.ms": "5"}
    if version >= 5:
        assert (good.num_partitions, good.replication_factor) == (3, 1)
        configs = {each.name: each for each in good.configs or ()}
        assert configs["retention.ms"].value == "5"
        assert configs["retention.ms"].config_source == 1
        assert configs["cleanup.policy"].value == "delete"
        assert configs["cleanup.policy"].config_source == 5
        assert good.topic_config_error_code == 0
    if version >= 7:
        assert good.topic_id == topic.topic_id


async def test_minus_one_stands_for_the_broker_defaults(make_bench: Any) -> None:
    bench = make_bench(num_partitions="7")
    await bench.start()
    (topic,) = (await bench.ask(request(wanted("orders")))).topics
    assert (topic.num_partitions, topic.replication_factor) == (7, 1)
    await bench.controller.stop()


async def test_pitfall_25_every_topic_is_answered_and_one_named_twice_is_refused(bench: Any) -> None:
    response = await bench.ask(request(wanted("twice"), wanted("once"), wanted("twice", 3)))
    assert [(each.name, each.error_code) for each in response.topics] == [
        ("twice", ErrorCode.invalid_request),
        ("once", ErrorCode.none),
    ]
    assert list(bench.image.topics) == ["once"]


async def test_pitfall_25_validate_only_really_validates_and_creates_nothing(bench: Any) -> None:
    before = bench.image
    response = await bench.ask(
        request(
            wanted("orders", 2), wanted("bad", retention_ms="x"), wanted("wide", 1, 9), validate_only=True
        )
    )
    assert [each.error_code for each in response.topics] == [
        ErrorCode.none,
        ErrorCode.invalid_config,
        ErrorCode.invalid_replication_factor,
    ]
    good = response.topics[0]
    assert (good.num_partitions, good.topic_id) == (2, None)
    assert good.configs
    assert bench.image is before


async def test_an_assignment_by_hand_is_honoured(bench: Any) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=(1,))  # type: ignore[arg-type]
    topic = CreatableTopic(
        name="orders",  # type: ignore[arg-type]
        num_partitions=-1,  # type: ignore[arg-type]
        replication_factor=-1,  # type: ignore[arg-type]
        assignments=(assignment,),
        configs=(),
    )
    (result,) = (await bench.ask(request(topic))).topics
    assert (result.error_code, result.num_partitions) == (ErrorCode.none, 1)


async def test_a_long_request_gets_its_topics_but_not_their_configs(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TOPICS_WITH_CONFIGS", 2)
    response = await bench.ask(request(wanted("a"), wanted("b"), wanted("c")))
    assert [each.configs for each in response.topics] == [None, None, None]
    assert {each.topic_config_error_code for each in response.topics} == {ErrorCode.policy_violation.value}
    assert [each.num_partitions for each in response.topics] == [1, 1, 1]


async def test_too_many_partitions_are_a_policy_violation_for_each_topic(bench: Any) -> None:
    response = await bench.ask(request(wanted("big", 9_999), wanted("small", 2)))
    assert [each.error_code for each in response.topics] == [ErrorCode.policy_violation] * 2
    assert not bench.image.topics
