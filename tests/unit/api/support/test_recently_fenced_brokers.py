"""Which dead brokers librdkafka is still told of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest

from ottla.api.api_versions import MAX_SOFTWARE_CHARS, api_versions
from ottla.api.support.recently_fenced_brokers import LISTED_FOR_MS, RecentlyFencedBrokers
from ottla.common.clock import ManualClock
from ottla.metadata.entities import BrokerImage
from ottla.metadata.image import ClusterImage

ALIVE = BrokerImage(1, 1, None, (), fenced=False, shutting_down=False)
DEAD = ALIVE._replace(fenced=True)
PYTHON = "confluent-kafka-python 2.16.1-rdkafka-2.16.0"


def client(software: str = PYTHON, has_fetched: bool = False) -> Any:
    return SimpleNamespace(software=software, has_fetched=has_fetched)


PRODUCER = client()


def image(*brokers: BrokerImage) -> ClusterImage:
    return ClusterImage(brokers={each.node_id: each for each in brokers})


@pytest.mark.parametrize("before", [ALIVE, ALIVE._replace(shutting_down=True)], ids=["died", "stopped"])
def test_a_broker_that_left_is_listed_for_a_while(before: BrokerImage) -> None:
    clock = ManualClock()
    departed = RecentlyFencedBrokers(clock)
    assert departed.still_listed(image(before), PRODUCER) == frozenset()
    dead = image(DEAD)
    assert departed.still_listed(dead, PRODUCER) == {1}
    clock.advance(LISTED_FOR_MS - 1)
    assert departed.still_listed(image(DEAD), PRODUCER) == {1}  # whatever else has changed
    clock.advance(1)
    assert departed.still_listed(dead, PRODUCER) == frozenset()


@pytest.mark.parametrize(
    ("software", "told"),
    [
        (PYTHON, {1}),
        ("librdkafka 2.16.0", {1}),
        ("karafka v2.5.0-rdkafka-ruby-v0.19.5-librdkafka-v2.8.0", {1}),
        ("apache-kafka-java 4.1.1", set()),
        ("kafka-python 3.0.12", set()),
        ("", set()),
    ],
)
def test_only_librdkafka_sees_them(software: str, told: set[int]) -> None:
    departed = RecentlyFencedBrokers(ManualClock())
    departed.note(image(ALIVE))
    assert departed.still_listed(image(DEAD), client(software)) == told


def test_librdkafkas_consumers_do_not_see_them() -> None:
    departed = RecentlyFencedBrokers(ManualClock())
    departed.note(image(ALIVE))
    assert departed.still_listed(image(DEAD), client(has_fetched=True)) == frozenset()
    assert departed.still_listed(image(DEAD), PRODUCER) == {1}


def test_a_broker_that_is_back_has_not_departed() -> None:
    departed = RecentlyFencedBrokers(ManualClock())
    departed.note(image(ALIVE))
    assert departed.still_listed(image(DEAD), PRODUCER) == {1}
    assert departed.still_listed(image(ALIVE._replace(epoch=2)), PRODUCER) == frozenset()


def test_a_broker_that_was_dead_when_this_one_started_may_have_died_a_moment_ago() -> None:
    assert RecentlyFencedBrokers(ManualClock()).still_listed(image(DEAD), PRODUCER) == {1}


def test_a_broker_that_was_taken_out_of_the_cluster_is_not_listed() -> None:
    departed = RecentlyFencedBrokers(ManualClock())
    departed.note(image(ALIVE))
    assert departed.still_listed(image(DEAD), PRODUCER) == {1}
    assert departed.still_listed(image(), PRODUCER) == frozenset()


def test_a_client_says_in_its_first_request_what_it_is() -> None:
    connection = SimpleNamespace(software="")
    ctx: Any = SimpleNamespace(version=4, connection=connection)
    name, version = PYTHON.split()
    api_versions(ApiVersionsRequest(client_software_name=name, client_software_version=version), ctx)
    assert connection.software == PYTHON
    api_versions(ApiVersionsRequest(client_software_name="x" * 9_999, client_software_version="1"), ctx)
    assert len(connection.software) == MAX_SOFTWARE_CHARS
