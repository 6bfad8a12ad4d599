from typing import Any

import pytest
from kio.schema.list_config_resources.v1 import ListConfigResourcesRequest

from ottla.controller.machine import ConfigAlteration, ConfigChange
from ottla.protocol.errors import UnsupportedVersion

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
async def full(bench: Any) -> Any:
    await bench.create_topic("orders")
    await bench.controller.active_controller.alter_configs(
        [
            ConfigAlteration(GROUP, "g", (ConfigChange("consumer.heartbeat.interval.ms", "6000"),)),
            ConfigAlteration(CLIENT_METRICS, "m", (ConfigChange("interval.ms", "200"),)),
        ]
    )
    return bench


async def listed(bench: Any, *types: int, version: int = 1) -> set[tuple[int, str]]:
    response = await bench.ask(ListConfigResourcesRequest(resource_types=types), version)  # type: ignore[arg-type]
    return {(each.resource_type, each.resource_name) for each in response.config_resources}


async def test_what_has_configs_is_listed_by_type(full: Any) -> None:
    everything = {
        (TOPIC, "orders"),
        (BROKER, "1"),
        (BROKER_LOGGER, "1"),
        (CLIENT_METRICS, "m"),
        (GROUP, "g"),
    }
    assert await listed(full) == everything
    assert await listed(full, GROUP, TOPIC) == {(GROUP, "g"), (TOPIC, "orders")}
    assert await listed(full, version=0) == {(CLIENT_METRICS, "m")}
    with pytest.raises(UnsupportedVersion):
        await listed(full, 99)
