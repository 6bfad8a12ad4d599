"""Which topics a query finds, and what it says of those that it may not see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from ottla.client.client_options import ClientOptions
from ottla.client.cluster import TopicInfo
from ottla.protocol.errors import (
    KafkaError,
    LeaderNotAvailable,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.spark.errors import SparkError
from ottla.spark.source.options import read_source_options
from ottla.spark.source.topic_watch import TopicWatch


class FakeCluster:
    """Answers requests for metadata in turn; errors that brokers mark as retriable are retried."""

    def __init__(self, *answers: TopicInfo | KafkaError) -> None:
        self.answers = list(answers)
        self.options = ClientOptions.of(bootstrap_servers="127.0.0.1:1")

    async def refresh_some(self, names: Iterable[str]) -> dict[str, TopicInfo | KafkaError]:
        (name,) = names
        return {name: self.answers.pop(0)}

    async def retrying(self, attempt: Callable[[], Awaitable[Any]], *, wait_for_brokers: bool) -> Any:
        while True:
            try:
                return await attempt()
            except LeaderNotAvailable:
                assert wait_for_brokers


def watch(*answers: TopicInfo | KafkaError) -> TopicWatch:
    options = read_source_options(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}, is_stream=True
    )
    return TopicWatch(FakeCluster(*answers), options)  # type: ignore[arg-type]


ORDERS = TopicInfo("orders", None, False, {})


async def test_an_absent_topic_is_to_be_created() -> None:
    watched = watch(UnknownTopicOrPartition("orders"))
    await watched.refresh()
    with pytest.raises(SparkError, match=r"unknown topic orders\. Create it first"):
        watched.check_all_there()


async def test_a_topic_that_the_user_may_not_see_is_not_called_absent() -> None:
    with pytest.raises(SparkError, match="not authorized to describe topic orders"):
        await watch(TopicAuthorizationFailed("orders")).refresh()


async def test_a_topic_without_leaders_for_a_moment_is_asked_for_again() -> None:
    watched = watch(LeaderNotAvailable("orders"), ORDERS)
    await watched.refresh()
    assert watched.topics == {"orders": ORDERS}
