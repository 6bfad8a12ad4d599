"""Every decision of the controller is one log line."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from ottla.controller.events import MAX_LINES, Event, events, log_events
from ottla.metadata.entities import election_kind, partition_changed, partition_created
from ottla.metadata.image import EMPTY, ClusterImage, PartitionImage
from ottla.metadata.records import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    ConfigResource,
    MetadataRecord,
    TopicCreated,
    TopicDeleted,
)

ID = UUID(int=7)


@pytest.fixture(autouse=True)
def _every_line_is_written(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.controller.events")


LED = PartitionImage(0, 1, 0, (1, 2, 3), (1, 2, 3), 0)


def image(*records: MetadataRecord) -> ClusterImage:
    brokers = [BrokerRegistered(each, each, None, (), directory_id=f"d{each}") for each in (1, 2, 3)]
    return EMPTY.apply([*brokers, TopicCreated("orders", ID), partition_created(ID, LED), *records])


def happened(*records: MetadataRecord, before: ClusterImage | None = None) -> list[Event]:
    old = before or image()
    log_events(old, old.apply(records))  # no field has a name that log records use themselves
    return list(events(old, old.apply(records)))


def changed(**fields: object) -> MetadataRecord:
    return partition_changed(ID, LED.__class__(**{**_fields(LED), **fields}))


def _fields(partition: PartitionImage) -> dict[str, object]:
    return {name: getattr(partition, name) for name in partition.__dataclass_fields__}


def test_the_death_and_the_return_of_a_broker() -> None:
    (death,) = happened(BrokerChanged(2, 2, fenced=True, shutting_down=False))
    assert (death.name, death.level, death.fields["broker"]) == ("broker-fenced", logging.WARNING, 2)
    dead = image(BrokerChanged(2, 2, fenced=True, shutting_down=False))
    (back,) = happened(BrokerRegistered(2, 9, None, (), directory_id="d2"), before=dead)
    assert (back.name, back.text) == ("broker-registered", "broker 2 returned, broker epoch 9")
    (wiped,) = happened(BrokerRegistered(2, 9, None, (), directory_id="new"), before=dead)
    assert wiped.level == logging.ERROR
    assert "ANOTHER log directory" in wiped.text
    assert [each.name for each in happened(BrokerUnregistered(2), before=dead)] == ["broker-unregistered"]
    assert [each.name for each in happened(BrokerChanged(2, 2, fenced=False, shutting_down=True))] == [
        "broker-draining"
    ]


def test_elections_say_whether_they_are_clean() -> None:
    (clean,) = happened(changed(leader=2, leader_epoch=1, isr=(2, 3)))
    assert (clean.level, clean.fields["election"]) == (logging.INFO, "clean")
    assert clean.text == "orders-0: broker 2 elected leader instead of 1, in epoch 1, ISR 2,3"
    alone = image(changed(isr=(1,), leader=-1, leader_epoch=1))
    (unclean,) = happened(changed(leader=3, leader_epoch=2, isr=(3,)), before=alone)
    assert (unclean.level, unclean.fields["election"]) == (logging.ERROR, "unclean")
    assert "LOST" in unclean.text


def test_the_last_leader_counts_unless_its_disk_is_gone() -> None:
    waiting = PartitionImage(0, -1, 1, (1,), (), 1, last_known_elr=(1,))
    led = PartitionImage(0, 1, 2, (1,), (1,), 2)
    assert election_kind(waiting, led) == "last-leader"
    wiped = PartitionImage(0, -1, 1, (1,), (), 1, last_known_elr=(1,), lost_directories=((1, "d1"),))
    assert election_kind(wiped, led) == "unclean"


def test_an_offline_partition_is_an_error() -> None:
    (offline,) = happened(changed(leader=-1, leader_epoch=1, isr=()))
    assert (offline.name, offline.level) == ("partition-offline", logging.ERROR)
    assert (offline.fields["topic"], offline.fields["partition"]) == ("orders", 0)


def test_a_full_log_directory_is_one_line_for_its_broker() -> None:
    (full,) = happened(changed(full=(2,), isr=(1, 3)))
    assert (full.name, full.level) == ("disk-full", logging.WARNING)
    assert full.fields == {"broker": 2, "partitions": 1}
    before = image(changed(full=(2,), isr=(1, 3)))
    (ended,) = happened(changed(isr=(1, 3)), before=before)
    assert (ended.name, ended.fields) == ("disk-has-room", {"broker": 2, "partitions": 1})


def test_an_isr_change_is_not_an_election() -> None:
    assert happened(changed(isr=(1, 2), partition_epoch=1)) == []


def test_topics_configs_and_moves() -> None:
    names = [each.name for each in happened(TopicDeleted(ID))]
    assert names == ["topic-deleted"]
    other = UUID(int=8)
    made = happened(TopicCreated("new", other), partition_created(other, LED))
    assert [(each.name, each.fields["topic"]) for each in made] == [("topic-created", "new")]
    added = happened(partition_created(ID, PartitionImage(1, 2, 0, (2,), (2,), 0)))
    assert [each.name for each in added] == ["partitions-added"]
    topic = ConfigResource.TOPIC
    (config,) = happened(ConfigChanged(topic, "orders", "retention.ms", "5"))
    assert config.text == "config of topic orders: retention.ms set to 5"
    moving = changed(replicas=(1, 2, 3, 4), adding=(4,), removing=(3,), partition_epoch=1)
    assert [each.name for each in happened(moving)] == ["reassignment-started"]
    assert [each.name for each in happened(changed(partition_epoch=2), before=image(moving))] == [
        "reassignment-ended"
    ]


def test_a_replica_that_was_added_may_lead_at_once() -> None:
    moving = PartitionImage(0, 1, 0, (4, 2, 1), (1, 2), 1, adding=(4,), removing=(1,))
    assert election_kind(moving, PartitionImage(0, 4, 1, (4, 2), (2, 4), 2)) == "clean"
    alone = PartitionImage(0, 1, 0, (4, 1), (1,), 1, adding=(4,), removing=(1,))
    assert election_kind(alone, PartitionImage(0, 4, 1, (4,), (4,), 2)) == "clean"
    assert election_kind(alone, PartitionImage(0, 4, 1, (4, 1), (4,), 2, (), (), (4,), (1,))) == "unclean"


def test_every_kind_of_event_can_be_logged(caplog: pytest.LogCaptureFixture) -> None:
    other, topic = UUID(int=8), ConfigResource.TOPIC
    records: list[MetadataRecord] = [
        TopicCreated("new", other),
        partition_created(other, LED),
        ConfigChanged(topic, "new", "retention.ms", "5"),
        ConfigChanged(ConfigResource.BROKER, "", "log.retention.ms", "5"),
        BrokerChanged(2, 2, fenced=True, shutting_down=False),
        changed(leader=-1, leader_epoch=1, isr=()),
    ]
    with caplog.at_level(logging.INFO, "ottla.controller.events"):
        log_events(image(), image().apply(records))
    seen = [vars(each)["event"] for each in caplog.records]
    assert seen == ["broker-fenced", "topic-created", "partition-offline", "config-changed", "config-changed"]


@pytest.mark.parametrize(
    "key",
    [
        "ssl.key.password",
        "ssl.keystore.key",
        "listener.name.external.ssl.keystore.key",
        "listener.name.external.plain.sasl.jaas.config",
        "a.key.of.a.newer.release",
    ],
)
def test_the_log_has_no_secret_of_a_broker(key: str) -> None:
    (secret,) = happened(ConfigChanged(ConfigResource.BROKER, "1", key, "hunter2"))
    assert "hunter2" not in secret.text + str(secret.fields)
    assert key in secret.text


def test_a_restart_of_the_only_broker_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    old = image(
        TopicCreated("many", UUID(int=9)),
        *(partition_created(UUID(int=9), PartitionImage(each, 1, 0, (1,), (1,), 0)) for each in range(50)),
    )
    again = [partition_changed(UUID(int=9), PartitionImage(each, 1, 1, (1,), (1,), 1)) for each in range(50)]
    with caplog.at_level(logging.INFO, "ottla.controller.events"):
        log_events(old, old.apply(again))
    (line,) = caplog.records
    assert line.getMessage() == "broker 1 leads 50 partitions again, after its restart"
    assert (vars(line)["event"], vars(line)["partitions"]) == ("leaders-kept", 50)


def test_lines_are_structured_and_a_flood_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    many = [TopicCreated("many", UUID(int=9))]
    ledger = [PartitionImage(index, 1, 0, (1, 2), (1, 2), 0) for index in range(MAX_LINES + 30)]
    old = image(*many, *(partition_created(UUID(int=9), each) for each in ledger))
    moved = [
        partition_changed(UUID(int=9), PartitionImage(each.index, 2, 1, (1, 2), (2,), 1)) for each in ledger
    ]
    with caplog.at_level(logging.INFO, "ottla.controller.events"):
        log_events(old, old.apply(moved))
    assert len(caplog.records) == MAX_LINES + 1
    first, last = caplog.records[0], caplog.records[-1]
    assert (vars(first)["event"], vars(first)["leader"]) == ("leader-elected", 2)
    assert vars(last)["left_out"] == 30
