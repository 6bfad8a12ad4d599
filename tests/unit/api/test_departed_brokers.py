"""Which dead brokers clients are still told of."""

from __future__ import annotations

from ottla.api.departed_brokers import LISTED_FOR_MS, DepartedBrokers
from ottla.common.clock import ManualClock
from ottla.metadata.entities import BrokerImage
from ottla.metadata.image import ClusterImage

ALIVE = BrokerImage(1, 1, None, (), fenced=False, shutting_down=False)
DEAD = ALIVE._replace(fenced=True)


def image(*brokers: BrokerImage) -> ClusterImage:
    return ClusterImage(brokers={each.node_id: each for each in brokers})


def test_a_broker_that_died_is_listed_for_a_while() -> None:
    clock = ManualClock()
    departed = DepartedBrokers(clock)
    assert departed.still_listed(image(ALIVE)) == frozenset()
    dead = image(DEAD)
    assert departed.still_listed(dead) == {1}
    clock.advance(LISTED_FOR_MS - 1)
    assert departed.still_listed(image(DEAD)) == {1}  # whatever else has changed
    clock.advance(1)
    assert departed.still_listed(dead) == frozenset()


def test_a_broker_that_is_back_has_not_departed() -> None:
    departed = DepartedBrokers(ManualClock())
    departed.still_listed(image(ALIVE))
    assert departed.still_listed(image(DEAD)) == {1}
    assert departed.still_listed(image(ALIVE._replace(epoch=2))) == frozenset()


def test_brokers_that_were_dead_before_said_goodbye_or_are_forgotten_are_not_listed() -> None:
    departed = DepartedBrokers(ManualClock())
    assert departed.still_listed(image(DEAD)) == frozenset()
    departed.still_listed(image(ALIVE._replace(shutting_down=True)))
    assert departed.still_listed(image(DEAD)) == frozenset()
    departed.still_listed(image(ALIVE))
    assert departed.still_listed(image(DEAD)) == {1}
    assert departed.still_listed(image()) == frozenset()
