from typing import Any

import pytest
from kio.schema.alter_configs.v2 import AlterConfigsRequest
from kio.schema.alter_configs.v2.request import AlterableConfig, AlterConfigsResource
from kio.schema.errors import ErrorCode

from ottla.controller.machine import NewTopic

TOPIC, BROKER = 2, 4


def resource(kind: int, name: str, **configs: str | None) -> AlterConfigsResource:
    changes = tuple(
        AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
    )
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(3))
async def test_pitfall_25_what_is_not_named_is_reset_in_every_version(bench: Any, version: int) -> None:
    configs = (("retention.ms", "5"), ("max.message.bytes", "9"))
    await bench.controller.create_topics([NewTopic("orders", configs=configs)])
    request = AlterConfigsRequest(
        resources=(resource(TOPIC, "orders", retention_ms="6"), resource(TOPIC, "nothing")),
        validate_only=False,
    )
    response = await bench.ask(request, version)
    assert [(each.resource_type, each.resource_name, each.error_code) for each in response.responses] == [
        (TOPIC, "orders", ErrorCode.none),
        (TOPIC, "nothing", ErrorCode.unknown_topic_or_partition),
    ]
    assert bench.image.topic_overrides("orders") == {"retention.ms": "6"}


async def test_validate_only_really_validates_and_changes_nothing(bench: Any) -> None:
    await bench.controller.create_topics([NewTopic("orders", configs=(("retention.ms", "5"),))])
    before = bench.image
    for value, code in (
        ("6", ErrorCode.none),
        ("soon", ErrorCode.invalid_config),
        (None, ErrorCode.invalid_request),
    ):
        request = AlterConfigsRequest(
            resources=(resource(TOPIC, "orders", retention_ms=value),), validate_only=True
        )
        (result,) = (await bench.ask(request)).responses
        assert result.error_code == code
        assert (result.error_message is None) == (code == ErrorCode.none)
    assert bench.image is before


async def test_broker_configs_are_replaced_and_take_effect_at_once(bench: Any) -> None:
    for configs in ({"log_retention_ms": "6", "message_max_bytes": "5000"}, {"message_max_bytes": "6000"}):
        request = AlterConfigsRequest(resources=(resource(BROKER, "1", **configs),), validate_only=False)
        assert [each.error_code for each in (await bench.ask(request)).responses] == [ErrorCode.none]
    assert bench.services.config.message_max_bytes == 6000
    assert bench.services.config.log_retention_ms is None
