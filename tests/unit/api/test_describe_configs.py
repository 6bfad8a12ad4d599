import asyncio
from typing import Any

import pytest
from kio.schema.describe_configs.v4 import DescribeConfigsRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsResource
from kio.schema.errors import ErrorCode

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.topic import TopicConfig
from ottla.controller.machine import ConfigAlteration, ConfigChange, NewTopic

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8


def resource(kind: int, name: str, *keys: str) -> DescribeConfigsResource:
    return DescribeConfigsResource(
        resource_type=kind,  # type: ignore[arg-type]
        resource_name=name,
        configuration_keys=keys or None,
    )


def request(*resources: DescribeConfigsResource, everything: bool = False) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=resources, include_synonyms=everything, include_documentation=everything
    )


@pytest.mark.parametrize("version", range(1, 5))
async def test_pitfall_25_every_config_is_listed_with_value_source_and_type(bench: Any, version: int) -> None:
    await bench.controller.create_topics([NewTopic("orders", configs=(("retention.ms", "5"),))])
    response = await bench.ask(
        request(resource(TOPIC, "orders"), resource(BROKER, "1"), everything=True), version
    )
    topic, broker = response.results
    assert [topic.error_code, broker.error_code] == [ErrorCode.none] * 2
    assert {each.name for each in topic.configs} == set(TopicConfig.KEYS)
    assert {each.name for each in broker.configs} == set(BrokerConfig.KEYS)
    retention = next(each for each in topic.configs if each.name == "retention.ms")
    assert (retention.value, retention.config_source, retention.read_only) == ("5", 1, False)
    assert [(each.name, each.source) for each in retention.synonyms][:1] == [("retention.ms", 1)]
    assert retention.synonyms[-1].source == 5
    policy = next(each for each in topic.configs if each.name == "cleanup.policy")
    assert (policy.value, policy.config_source) == ("delete", 5)
    node_id = next(each for each in broker.configs if each.name == "node.id")
    assert (node_id.value, node_id.config_source, node_id.read_only) == ("1", 4, True)
    if version >= 3:
        assert (retention.config_type, policy.config_type, node_id.config_type) == (5, 7, 3)
        assert retention.documentation


async def test_synonyms_and_documentation_are_left_out_unless_asked_for(bench: Any) -> None:
    await bench.create_topic("orders")
    (result,) = (await bench.ask(request(resource(TOPIC, "orders")))).results
    assert all(each.synonyms == () and each.documentation is None for each in result.configs)


async def test_only_the_keys_asked_for_are_listed(bench: Any) -> None:
    await bench.create_topic("orders")
    (result,) = (await bench.ask(request(resource(TOPIC, "orders", "retention.ms", "nonsense")))).results
    assert [each.name for each in result.configs] == ["retention.ms"]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nothing", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "b a d", ErrorCode.invalid_topic_exception),
        (BROKER, "2", ErrorCode.invalid_request),
        (BROKER, "one", ErrorCode.invalid_request),
        (BROKER_LOGGER, "1", ErrorCode.invalid_request),
        (0, "", ErrorCode.invalid_request),
        (16, "", ErrorCode.invalid_request),
        (127, "x", ErrorCode.invalid_request),
    ],
)
async def test_what_cannot_be_described_is_answered_with_the_reason(
    bench: Any, kind: int, name: str, code: ErrorCode
) -> None:
    (result,) = (await bench.ask(request(resource(kind, name)))).results
    assert (result.error_code, result.resource_type, result.resource_name) == (code, kind, name)
    assert result.error_message
    assert result.configs == ()


async def test_dynamic_broker_configs_show_at_once_with_their_source(bench: Any) -> None:
    for name, value in (("", "7"), ("1", "6")):
        change = ConfigChange("log.retention.ms", value)
        assert await bench.controller.active_controller.alter_configs(
            [ConfigAlteration(BROKER, name, (change,))]
        ) == [None]
    await bench.create_topic("orders")
    response = await bench.ask(
        request(resource(BROKER, "1", "log.retention.ms"), resource(BROKER, ""), everything=True)
    )
    own, everyone = response.results
    assert [(each.name, each.value, each.config_source) for each in own.configs] == [
        ("log.retention.ms", "6", 2)
    ]
    assert [(each.value, each.source) for each in own.configs[0].synonyms][:2] == [("6", 2), ("7", 3)]
    assert [(each.name, each.value, each.config_source) for each in everyone.configs] == [
        ("log.retention.ms", "7", 3)
    ]
    (topic,) = (await bench.ask(request(resource(TOPIC, "orders", "retention.ms")))).results
    assert (topic.configs[0].value, topic.configs[0].config_source) == ("6", 2)


@pytest.mark.parametrize("version", [1, 4])
async def test_a_long_response_in_parts_is_the_same_response(bench: Any, version: int) -> None:
    names = [f"t{number}" for number in range(180)]
    await bench.controller.create_topics(
        [NewTopic(name, configs=(("retention.ms", name[1:]),)) for name in names]
    )
    asked = [resource(TOPIC, name, "retention.ms") for name in names]
    response = await bench.ask(request(*asked, *asked[:3]), version)
    assert [each.resource_name for each in response.results] == names
    assert [each.configs[0].value for each in response.results] == [name[1:] for name in names]


async def test_an_empty_request_has_an_empty_answer(bench: Any) -> None:
    assert (await bench.ask(request(), 1)).results == ()
    assert (await bench.ask(request(), 4)).results == ()


async def test_describing_many_topics_lets_others_work_in_between(bench: Any) -> None:
    names = [f"t{number}" for number in range(500)]
    await bench.controller.create_topics([NewTopic(name) for name in names])
    turns = 0

    async def someone_else() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(someone_else())
    response = await bench.ask(request(*(resource(TOPIC, name) for name in names)))
    task.cancel()
    assert len(response.results) == 500
    assert turns >= 10


async def test_groups_and_client_metrics_are_described_with_their_own_settings_first(bench: Any) -> None:
    group, metrics = 32, 16
    set_to = (ConfigChange("consumer.heartbeat.interval.ms", "6000"),)
    await bench.controller.active_controller.alter_configs([ConfigAlteration(group, "g", set_to)])
    wanted = (resource(group, "g"), resource(metrics, "m"), resource(group, ""))
    own, other, nameless = (await bench.ask(request(*wanted, everything=True))).results
    found = {each.name: (each.value, each.config_source) for each in own.configs}
    assert found == {
        "consumer.session.timeout.ms": ("45000", 5),
        "consumer.heartbeat.interval.ms": ("6000", 8),
    }
    assert {each.name: each.value for each in other.configs} == {
        "interval.ms": "300000",
        "match": "",
        "metrics": "",
    }
    assert nameless.error_code is ErrorCode.invalid_request
