from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource

from ottla.controller.machine import NewTopic

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> AlterConfigsResource:
    configs = tuple(
        AlterableConfig(name=key, config_operation=operation, value=value)  # type: ignore[arg-type]
        for key, operation, value in changes
    )
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)  # type: ignore[arg-type]


def request(*resources: AlterConfigsResource, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


@pytest.mark.parametrize("version", range(2))
async def test_pitfall_25_set_delete_append_and_subtract_in_every_version(bench: Any, version: int) -> None:
    configs = (("retention.ms", "5"), ("max.message.bytes", "9"), ("cleanup.policy", "compact,delete"))
    await bench.controller.create_topics([NewTopic("orders", configs=configs), NewTopic("users")])
    changes = [
        ("retention.ms", SET, "6"),
        ("max.message.bytes", DELETE, None),
        ("cleanup.policy", SUBTRACT, "delete"),
    ]
    appended = resource(TOPIC, "users", ("cleanup.policy", APPEND, "compact"))
    response = await bench.ask(request(resource(TOPIC, "orders", *changes), appended), version)
    assert [each.error_code for each in response.responses] == [ErrorCode.none] * 2
    assert bench.image.topic_overrides("orders") == {"retention.ms": "6", "cleanup.policy": "compact"}
    assert bench.image.topic_overrides("users") == {"cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (resource(TOPIC, "orders", ("retention.mss", SET, "6")), ErrorCode.invalid_config),
        (resource(TOPIC, "orders", ("retention.ms", APPEND, "6")), ErrorCode.invalid_config),
        (resource(TOPIC, "orders", ("retention.ms", 9, "6")), ErrorCode.invalid_request),
        (resource(TOPIC, "nothing", ("retention.ms", SET, "6")), ErrorCode.unknown_topic_or_partition),
        (resource(BROKER, "1", ("log.dirs", SET, "/x")), ErrorCode.invalid_request),
        (resource(BROKER, "1", ("log.retention.ms", SET, "x")), ErrorCode.invalid_request),
        (resource(BROKER, "5", ("log.retention.ms", SET, "6")), ErrorCode.invalid_request),
        (resource(BROKER_LOGGER, "1", ("root", SET, "DEBUG")), ErrorCode.invalid_request),
        (resource(99, "1", ("root", SET, "DEBUG")), ErrorCode.invalid_request),
    ],
)
async def test_what_will_not_do_is_refused_with_the_reason(
    bench: Any, wanted: AlterConfigsResource, code: ErrorCode
) -> None:
    await bench.create_topic("orders")
    before = bench.image
    (result,) = (await bench.ask(request(wanted))).responses
    assert result.error_code == code
    assert result.error_message
    assert bench.image is before


async def test_a_resource_named_twice_is_refused_each_time(bench: Any) -> None:
    await bench.create_topic("orders")
    wanted = resource(TOPIC, "orders", ("retention.ms", SET, "6"))
    response = await bench.ask(request(wanted, wanted))
    assert [each.error_code for each in response.responses] == [ErrorCode.invalid_request] * 2


async def test_validate_only_changes_nothing(bench: Any) -> None:
    await bench.create_topic("orders")
    before = bench.image
    wanted = resource(TOPIC, "orders", ("retention.ms", SET, "6"))
    assert [each.error_code for each in (await bench.ask(request(wanted, validate_only=True))).responses] == [
        ErrorCode.none
    ]
    assert bench.image is before


async def test_broker_configs_take_effect_at_once_and_the_broker_wins_over_the_cluster(bench: Any) -> None:
    everyone = resource(BROKER, "", ("message.max.bytes", SET, "5000"))
    own = resource(BROKER, "1", ("message.max.bytes", SET, "6000"))
    assert [each.error_code for each in (await bench.ask(request(everyone))).responses] == [ErrorCode.none]
    assert bench.services.config.message_max_bytes == 5000
    assert [each.error_code for each in (await bench.ask(request(own))).responses] == [ErrorCode.none]
    assert bench.services.config.message_max_bytes == 6000
    await bench.ask(request(resource(BROKER, "1", ("message.max.bytes", DELETE, None))))
    assert bench.services.config.message_max_bytes == 5000


async def test_deleting_what_is_not_set_changes_nothing(bench: Any) -> None:
    """What kafka-reassign-partitions does at the end of every move."""
    await bench.create_topic("orders")
    rates = (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
    wanted = (
        resource(BROKER, "1", *((key, DELETE, None) for key in rates)),
        resource(TOPIC, "orders", ("leader.replication.throttled.replicas", DELETE, None), ("x", DELETE, "")),
    )
    before = bench.image
    response = await bench.ask(request(*wanted))
    assert [each.error_code for each in response.responses] == [ErrorCode.none] * 2
    assert bench.image.configs == before.configs


async def test_a_throttle_may_be_as_low_as_one_likes(bench: Any) -> None:
    low = resource(BROKER, "1", ("leader.replication.throttled.rate", SET, "1"))
    (answer,) = (await bench.ask(request(low))).responses
    assert answer.error_code is ErrorCode.none


async def test_groups_and_client_metrics_have_configs_though_they_do_not_exist(bench: Any) -> None:
    wanted = (
        resource(GROUP, "billing", ("consumer.session.timeout.ms", SET, "50000")),
        resource(CLIENT_METRICS, "latency", ("metrics", APPEND, "a.,b."), ("match", SET, "client_id=app.*")),
    )
    response = await bench.ask(request(*wanted))
    assert [each.error_code for each in response.responses] == [ErrorCode.none] * 2
    assert bench.image.group_overrides("billing") == {"consumer.session.timeout.ms": "50000"}
    assert bench.image.client_metrics_overrides("latency")["metrics"] == "a.,b."


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (resource(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")), ErrorCode.invalid_request),
        (resource(GROUP, "g", ("consumer.session.timeout", SET, "50000")), ErrorCode.invalid_config),
        (resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "1000")), ErrorCode.invalid_config),
        (resource(GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "16000")), ErrorCode.invalid_config),
        (resource(CLIENT_METRICS, "", ("interval.ms", SET, "100")), ErrorCode.invalid_request),
        (resource(CLIENT_METRICS, "m", ("interval.ms", SET, "1")), ErrorCode.invalid_request),
        (resource(CLIENT_METRICS, "m", ("no.such.key", SET, "1")), ErrorCode.invalid_request),
        (resource(CLIENT_METRICS, "m", ("match", SET, "color=red")), ErrorCode.invalid_config),
    ],
)
async def test_bad_configs_of_groups_and_client_metrics_are_refused(
    bench: Any, wanted: AlterConfigsResource, code: ErrorCode
) -> None:
    (answer,) = (await bench.ask(request(wanted))).responses
    assert answer.error_code is code
    assert bench.image.configs == {}
