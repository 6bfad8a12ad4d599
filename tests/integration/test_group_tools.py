"""What operators do to groups: look at them, move them while they are stopped, delete them.

The tools are `ottla group`, and the admin clients of the libraries; whichever moves a group, members of every
library resume where it was moved to.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPythonPartition
from kafka.structs import OffsetAndMetadata
from tests.integration.clients import DEADLINE_S, HasAddress, Place, Refused, refused_with
from tests.integration.confluent_client import refusal, translated
from tests.integration.group_table import BROKER_SETTINGS, MakeTable, Table
from tests.integration.member_libraries import CLASSIC, LIBRARIES
from tests.integration.members import Member, places_of, wait_for, wait_until_shared

from ottla.protocol.errors import NonEmptyGroup, UnknownMemberId

__all__ = ["BROKER_SETTINGS"]

Move = Callable[[HasAddress, str, dict[Place, int]], None]


def ottla(broker: HasAddress, *args: str) -> subprocess.CompletedProcess[str]:
    """Run `ottla group ...`."""
    command = [sys.executable, "-m", "ottla.cli", "group", *args, "-b", broker.address]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


def ottla_json(broker: HasAddress, *args: str) -> Any:
    done = ottla(broker, *args, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def only(futures: dict[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    with translated():
        return future.result(DEADLINE_S)


def with_ottla(broker: HasAddress, group: str, offsets: dict[Place, int]) -> None:
    for (topic, partition), offset in offsets.items():
        done = ottla(broker, "seek", group, "--topic", f"{topic}:{partition}", "--to-offset", str(offset))
        assert done.returncode == 0, done.stderr


def with_confluent(broker: HasAddress, group: str, offsets: dict[Place, int]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    done = only(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))
    for each in done.topic_partitions:
        if each.error is not None:
            raise refusal(each.error)


def with_kafka_python(broker: HasAddress, group: str, offsets: dict[Place, int]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    wanted = {KafkaPythonPartition(*place): OffsetAndMetadata(to, "", -1) for place, to in offsets.items()}
    answers = admin.alter_group_offsets(group, wanted)
    admin.close()
    for error in answers.values():
        if error.errno:
            raise Refused(error.errno, error.__name__)


TOOLS: dict[str, Move] = {
    "ottla": with_ottla,
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
}


def read_and_commit(table: Table, topic: str, partitions: int, records: int) -> None:
    """Have a group that has read everything, and is stopped."""
    with table.member(topic) as member:
        wait_for([member], lambda: len(member.read) == partitions * records, "all records")
        member.do(lambda consumer: consumer.commit())


def offsets_read(member: Member) -> list[tuple[int, int]]:
    return sorted((each.partition, each.offset) for each in member.read)


# Moving


@pytest.mark.parametrize("tool", TOOLS)
def test_a_group_that_was_moved_while_it_was_stopped_resumes_there(tool: str, table: Table) -> None:
    topic = table.topic(2, records=5)
    read_and_commit(table, topic, 2, 5)
    TOOLS[tool](table.broker, table.group, {(topic, 0): 3, (topic, 1): 4})
    assert table.committed(*places_of(topic, 2)) == [3, 4]
    again = table.member(topic)
    wait_for([again], lambda: len(again.read) >= 3, "the records after the new offsets")
    assert offsets_read(again) == [(0, 3), (0, 4), (1, 4)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--to-earliest",), [0, 0]),
        (("--to-latest",), [5, 5]),
        (("--by", "-2"), [3, 3]),
        (("--to-datetime", "2023-11-14T22:13:20.002"), [2, 2]),  # when the third record was made
        (("--to-datetime", "2100-01-01"), [5, 5]),
    ],
)
def test_ottla_group_seek_goes_to_any_place(
    options: tuple[str, ...], expected: list[int], make_table: MakeTable
) -> None:
    table = make_table(CLASSIC[0])
    topic = table.topic(2, records=5)
    read_and_commit(table, topic, 2, 5)
    planned = ottla_json(table.broker, "seek", table.group, *options, "--dry-run")
    assert [move["to"] for move in planned["moves"]] == expected
    assert table.committed(*places_of(topic, 2)) == [5, 5]
    assert ottla(table.broker, "seek", table.group, *options).returncode == 0
    assert table.committed(*places_of(topic, 2)) == expected


def test_offsets_of_a_group_with_members_cannot_be_moved(table: Table) -> None:
    topic = table.topic(1, records=5)
    member = table.member(topic, client_id="worker-7")
    wait_until_shared([member], places_of(topic, 1))
    refused = ottla(table.broker, "seek", table.group, "--topic", topic, "--to-latest")
    assert refused.returncode == 1
    assert f"{table.group} is in use by 1 member:\n  worker-7 at 127.0.0.1 (" in refused.stderr
    for tool in (with_confluent, with_kafka_python):
        with refused_with(UnknownMemberId):
            tool(table.broker, table.group, {(topic, 0): 3})
    assert table.committed((topic, 0)) == [-1]


# Looking


def test_describe_shows_who_reads_what_and_how_far_behind_the_group_is(table: Table) -> None:
    topic = table.topic(2, records=5)
    members = [table.member(topic, client_id=f"worker-{number}") for number in range(2)]
    wait_until_shared(members, places_of(topic, 2), shares=(1, 1))
    wait_for(members, lambda: sum(len(each.read) for each in members) >= 10, "all records")
    for member in members:
        place = next(iter(member.owned))
        member.do(lambda consumer, place=place: consumer.commit({place: 4}))
    (group,) = ottla_json(table.broker, "describe", table.group)
    assert (group["state"], group["type"], group["lag"]) == ("Stable", table.library.protocol, 2)
    assert sorted(each["client_id"] for each in group["members"]) == ["worker-0", "worker-1"]
    assert [(each["committed_offset"], each["end_offset"]) for each in group["partitions"]] == [(4, 5)] * 2
    readers = {each["member_id"] for each in group["members"]}
    assert {each["member_id"] for each in group["partitions"]} == readers
    # The fifth record of the wire's batches was made then.
    age_s = time.time() - 1_700_000_000.004
    assert group["lag_seconds"] == pytest.approx(age_s, abs=60)
    shown = ottla(table.broker, "describe", table.group).stdout
    assert f"{table.library.protocol} protocol, 2 members" in shown


def test_the_admin_clients_see_the_group_and_its_offsets(table: Table) -> None:
    topic = table.topic(2, records=5)
    read_and_commit(table, topic, 2, 5)
    assert {"group": table.group, "state": "Empty"}.items() <= next(
        each for each in ottla_json(table.broker, "list") if each["group"] == table.group
    ).items()
    admin = AdminClient({"bootstrap.servers": table.broker.address, "log_level": 0})
    listed = admin.list_consumer_groups().result(DEADLINE_S).valid
    assert [each.state.name for each in listed if each.group_id == table.group] == ["EMPTY"]
    assert [each.type.name for each in listed if each.group_id == table.group] == [
        table.library.protocol.upper()
    ]
    described = only(admin.describe_consumer_groups([table.group]))
    assert (described.state.name, list(described.members)) == ("EMPTY", [])
    asked = [ConsumerGroupTopicPartitions(table.group)]
    found = only(admin.list_consumer_group_offsets(asked)).topic_partitions
    assert sorted((each.partition, each.offset) for each in found) == [(0, 5), (1, 5)]


def test_a_live_group_is_described_alike_by_every_admin_client(table: Table) -> None:
    topic = table.topic(2)
    member = table.member(topic, client_id="worker-7")
    wait_until_shared([member], places_of(topic, 2))
    admin = AdminClient({"bootstrap.servers": table.broker.address, "log_level": 0})
    described = only(admin.describe_consumer_groups([table.group]))
    assert described.state.name == "STABLE"
    (seen,) = described.members
    assert (seen.client_id, seen.host.removeprefix("/")) == ("worker-7", "127.0.0.1")
    assert {(each.topic, each.partition) for each in seen.assignment.topic_partitions} == member.owned
    if table.library.protocol == "classic":
        other = KafkaAdminClient(bootstrap_servers=table.broker.address)
        text = str(other.describe_groups([table.group]))
        other.close()
        assert "worker-7" in text
        assert "Stable" in text


# Deleting


@pytest.mark.parametrize("library", [CLASSIC[0].name, "confluent-kafka-consumer-protocol"])
def test_a_group_can_be_deleted_when_it_is_stopped(library: str, make_table: MakeTable) -> None:
    table = make_table(LIBRARIES[library])
    topic, other = table.topic(1, records=5), table.topic(1, records=5)
    admin = AdminClient({"bootstrap.servers": table.broker.address, "log_level": 0})
    with table.member(topic) as member:
        wait_for([member], lambda: len(member.read) == 5, "all records")
        member.do(lambda consumer: consumer.commit())
        with refused_with(NonEmptyGroup):
            only(admin.delete_consumer_groups([table.group]))
        assert "is in use by 1 member" in ottla(table.broker, "delete", table.group).stderr
        in_use = ottla(table.broker, "delete", table.group, "--topic", topic)
        assert f"members of {table.group} read {topic}-0; its offsets cannot be deleted" in in_use.stderr
    with_confluent(table.broker, table.group, {(other, 0): 2})
    assert table.committed((topic, 0), (other, 0)) == [5, 2]
    assert ottla(table.broker, "delete", table.group, "--topic", other).returncode == 0
    assert table.committed((topic, 0), (other, 0)) == [5, -1]
    only(admin.delete_consumer_groups([table.group]))
    assert table.committed((topic, 0)) == [-1]
    assert f"there is no group '{table.group}'" in ottla(table.broker, "describe", table.group).stderr
