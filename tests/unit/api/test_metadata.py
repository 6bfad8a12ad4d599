from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.metadata import v10, v13
from kio.schema.metadata.v10.request import MetadataRequestTopic as OldTopic
from kio.schema.metadata.v13.request import MetadataRequestTopic

from ottla.api.support.authorization import NOT_ASKED
from ottla.api.support.context import EncodedMetadata
from ottla.security.acls import ALL_OPERATIONS, ResourceType

OF_CLUSTER, OF_TOPIC = ALL_OPERATIONS[ResourceType.CLUSTER], ALL_OPERATIONS[ResourceType.TOPIC]


@pytest.fixture
async def orders(bench: Any) -> Any:
    await bench.create_topic("orders")
    bench.services.encoded_metadata = EncodedMetadata()
    bench.services.recently_fenced_brokers = SimpleNamespace(still_listed=lambda *_: frozenset())
    return bench


@pytest.mark.parametrize("version", [8, 10])
@pytest.mark.parametrize("topic", ["orders", None])
async def test_operations_on_topics_and_cluster_are_reported_to_those_who_ask(
    orders: Any, version: int, topic: str | None
) -> None:
    topics: Any = None if topic is None else (OldTopic(topic_id=None, name=topic),)  # type: ignore[arg-type]
    for cluster, topics_too in ((False, False), (True, False), (False, True), (True, True)):
        request = v10.MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=cluster,
            include_topic_authorized_operations=topics_too,
        )
        response = await orders.ask(request, version)
        assert response.cluster_authorized_operations == (OF_CLUSTER if cluster else NOT_ASKED)
        (found,) = response.topics
        assert found.topic_authorized_operations == (OF_TOPIC if topics_too else NOT_ASKED)


@pytest.mark.parametrize("asked", [True, False])
async def test_operations_on_topics_are_reported_in_the_newest_version(orders: Any, asked: bool) -> None:
    wanted = (MetadataRequestTopic(topic_id=None, name="orders"),)  # type: ignore[arg-type]
    for topics in (wanted, None):
        request = v13.MetadataRequest(
            topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=asked
        )
        (found,) = (await orders.ask(request)).topics
        assert found.topic_authorized_operations == (OF_TOPIC if asked else NOT_ASKED)
