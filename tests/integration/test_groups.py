"""Consumer groups as the client libraries form them: share the work, fail over, resume.

The rows are confluent-kafka in both protocols, kafka-python and aiokafka.
"""

from __future__ import annotations

import pytest
from tests.integration.clients import HasAddress
from tests.integration.group_table import BROKER_SETTINGS, SHORT_SESSION_MS, MakeTable, Table
from tests.integration.member_libraries import LIBRARIES
from tests.integration.members import Member, places_of, wait_for, wait_until_shared

from ottla.testing.broker_process import BrokerProcess

__all__ = ["BROKER_SETTINGS"]

ASSIGNORS = [(name, assignor) for name, library in LIBRARIES.items() for assignor in library.assignors]


def wait_until_read(members: list[Member], count: int) -> None:
    wait_for(members, lambda: sum(len(each.read) for each in members) >= count, f"{count} records to be read")


def values_read(*members: Member) -> list[str]:
    return sorted((each.value or b"").decode() for member in members for each in member.read)


def values(partitions: int, numbers: range) -> list[str]:
    return sorted(f"{index}:{number}" for index in range(partitions) for number in numbers)


# Sharing


def test_a_group_of_one_reads_every_partition_from_the_beginning(table: Table) -> None:
    topic = table.topic(3, records=5)
    member = table.member(topic)
    wait_until_read([member], 15)
    assert values_read(member) == values(3, range(5))
    assert member.owned == set(places_of(topic, 3))


def test_partitions_are_shared_when_a_member_joins_and_return_when_it_leaves(table: Table) -> None:
    topic = table.topic(4)
    first = table.member(topic)
    wait_until_shared([first], places_of(topic, 4))
    second = table.member(topic)
    wait_until_shared([first, second], places_of(topic, 4), shares=(2, 2))
    second.stop()
    wait_until_shared([first], places_of(topic, 4))


def test_a_member_more_than_there_are_partitions_waits_for_its_turn(table: Table) -> None:
    topic = table.topic(1)
    members = [table.member(topic) for _ in range(2)]
    wait_until_shared(members, places_of(topic, 1), shares=(0, 1))
    owner = next(each for each in members if each.owned)
    owner.stop()
    wait_until_shared([each for each in members if each is not owner], places_of(topic, 1))


@pytest.mark.parametrize(("name", "assignor"), ASSIGNORS)
def test_every_assignor_gives_each_partition_of_two_topics_to_one_member(
    name: str, assignor: str, make_table: MakeTable
) -> None:
    table = make_table(LIBRARIES[name])
    topics = [table.topic(3, records=4) for _ in range(2)]
    places = [place for topic in topics for place in places_of(topic, 3)]
    first = table.member(*topics, assignor=assignor)
    wait_until_shared([first], places)
    second = table.member(*topics, assignor=assignor)
    # Range counts topic by topic, so the first in line gets the odd partition of each.
    wait_until_shared([first, second], places, shares=(2, 4) if assignor == "range" else (3, 3))
    wait_until_read([first, second], 24)
    if assignor == "cooperative-sticky":
        revoked = [len(each.places) for each in first.events if each.what == "revoked" and each.places]
        assert revoked == [3], "only what moves is taken away"


def test_a_topic_that_grows_is_shared_again(table: Table) -> None:
    topic = table.topic(1)
    members = [table.member(topic) for _ in range(2)]
    wait_until_shared(members, places_of(topic, 1))
    table.grow(topic, 3)
    wait_until_shared(members, places_of(topic, 3), shares=(1, 2))


# Failing over


def test_a_member_that_stalls_loses_its_partitions_and_gets_some_back_when_it_wakes_up(table: Table) -> None:
    topic = table.topic(4)
    stalled = table.process(topic, session_ms=SHORT_SESSION_MS)
    healthy = table.member(topic, session_ms=SHORT_SESSION_MS)
    wait_until_shared([stalled, healthy], places_of(topic, 4), shares=(2, 2))
    stalled.pause()
    wait_until_shared([healthy], places_of(topic, 4))
    stalled.resume()
    wait_until_shared([stalled, healthy], places_of(topic, 4), shares=(2, 2))


def test_the_partitions_of_a_member_that_was_killed_move_to_the_living(table: Table) -> None:
    topic = table.topic(4, records=5)
    doomed = table.process(topic, session_ms=SHORT_SESSION_MS)
    survivor = table.member(topic, session_ms=SHORT_SESSION_MS)
    wait_until_shared([doomed, survivor], places_of(topic, 4), shares=(2, 2))
    doomed.kill()
    wait_until_shared([survivor], places_of(topic, 4))
    # The dead one had committed nothing, so what it has read comes again.
    wait_for([survivor], lambda: set(values_read(survivor)) == set(values(4, range(5))), "all records")


def test_a_static_member_restarts_without_a_rebalance(table: Table) -> None:
    topic = table.topic(4)
    first = table.member(topic, instance_id="one")
    second = table.member(topic, instance_id="two")
    wait_until_shared([first, second], places_of(topic, 4), shares=(2, 2))
    owned, events = set(second.owned), list(first.events)
    second.stop()
    again = table.member(topic, instance_id="two")
    wait_for([first, again], lambda: again.owned == owned, "the restarted member to have its old partitions")
    table.produce(topic, 4, 1)
    wait_until_read([first, again], 4)
    assert first.events == events


# Committing and resuming


@pytest.mark.parametrize("how", ["sync", "async", "auto"])
def test_the_next_member_resumes_after_what_was_committed(how: str, table: Table) -> None:
    topic = table.topic(2, records=5)
    with table.member(topic, auto_commit=how == "auto") as first:
        wait_until_read([first], 10)
        if how == "sync":
            first.do(lambda consumer: consumer.commit())
            assert table.committed(*places_of(topic, 2)) == [5, 5]
        elif how == "async":
            first.do(lambda consumer: consumer.commit_soon())
        wait_for([first], lambda: table.committed(*places_of(topic, 2)) == [5, 5], f"the {how} commit")
    table.produce(topic, 2, 3, first=5)
    second = table.member(topic)
    wait_until_read([second], 6)
    assert values_read(second) == values(2, range(5, 8))
    assert second.do(lambda consumer: consumer.committed((topic, 1))) == 5


def test_a_commit_may_name_its_offsets_and_reads_back_as_it_was(table: Table) -> None:
    topic = table.topic(2, records=5)
    member = table.member(topic)
    wait_until_read([member], 10)
    member.do(lambda consumer: consumer.commit({(topic, 0): 3}))
    assert table.committed(*places_of(topic, 2)) == [3, -1]
    assert member.do(lambda consumer: consumer.committed((topic, 0))) == 3
    assert member.do(lambda consumer: consumer.committed((topic, 1))) is None


def test_after_everyone_and_the_broker_restart_the_group_is_where_it_was(
    table: Table, broker: HasAddress
) -> None:
    if not isinstance(broker, BrokerProcess):
        pytest.skip("OTTLA_TEST_BOOTSTRAP names the broker, so it is not ours to restart")
    topic = table.topic(4)
    before = [table.member(topic) for _ in range(2)]
    wait_until_shared(before, places_of(topic, 4), shares=(2, 2))
    table.produce(topic, 4, 5)  # only now: nobody has read what another one commits
    wait_for(before, lambda: set(values_read(*before)) == set(values(4, range(5))), "all records")
    for member in before:
        member.do(lambda consumer: consumer.commit())
    before.pop().stop()
    wait_until_shared(before, places_of(topic, 4))  # some libraries do not leave in the middle of a rebalance
    before.pop().stop()
    assert table.committed(*places_of(topic, 4)) == [5] * 4
    broker.restart()
    assert table.committed(*places_of(topic, 4)) == [5] * 4
    table.produce(topic, 4, 5, first=5)
    after = [table.member(topic) for _ in range(2)]
    wait_for(after, lambda: set(values_read(*after)) >= set(values(4, range(5, 10))), "the new records")
    assert set(values_read(*after)) == set(values(4, range(5, 10)))
