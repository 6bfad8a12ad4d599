"""confluent-kafka (librdkafka) as a member of a group, in the classic and in the consumer protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, TopicPartition
from tests.integration.clients import DEADLINE_S, Place
from tests.integration.confluent_client import QUICK, refusal, translated
from tests.integration.members import Event, GroupConsumer, MemberOptions, Read

PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}
"""What the library reports and then deals with by itself."""


class ConfluentMember(GroupConsumer):
    def __init__(self, bootstrap: str, options: MemberOptions) -> None:
        self.events: list[Event] = []
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": options.group,
            "client.id": options.client_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": options.auto_commit,
            "auto.commit.interval.ms": 100,
            "topic.metadata.refresh.interval.ms": 500,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
            **QUICK,
            **self._protocol_settings(options),
        }
        if options.instance_id is not None:
            settings["group.instance.id"] = options.instance_id
        self._library = Consumer(settings)
        self._library.subscribe(
            list(options.topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _protocol_settings(self, options: MemberOptions) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "session.timeout.ms": options.session_ms,
            "heartbeat.interval.ms": 100,
        }
        if options.assignor is not None:
            settings["partition.assignment.strategy"] = options.assignor
        return settings

    def poll(self, timeout_s: float) -> list[Read]:
        first = self._library.poll(timeout_s)
        found = []
        for message in ([first] if first is not None else []) + self._library.consume(500, 0):
            if (error := message.error()) is not None:
                if error.code() not in PASSING:
                    raise refusal(error)
                continue
            found.append(Read(message.topic(), message.partition(), message.offset(), message.value()))
        return found

    def assignment(self) -> set[Place]:
        return {(each.topic, each.partition) for each in self._library.assignment()}

    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        with translated():
            if offsets is None:
                self._library.commit(asynchronous=False)
                return
            wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
            done = self._library.commit(offsets=wanted, asynchronous=False)
        for each in done or ():
            if each.error is not None:
                raise refusal(each.error)

    def commit_soon(self) -> None:
        self._library.commit(asynchronous=True)

    def committed(self, place: Place) -> int | None:
        with translated():
            (found,) = self._library.committed([TopicPartition(*place)], DEADLINE_S)
        return None if found.offset == OFFSET_INVALID else found.offset

    def close(self) -> None:
        self._library.close()

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.events.append(_event("assigned", partitions))

    def _revoked(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.events.append(_event("revoked", partitions))

    def _lost(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.events.append(_event("lost", partitions))


class ConfluentConsumerProtocolMember(ConfluentMember):
    def _protocol_settings(self, options: MemberOptions) -> dict[str, Any]:
        settings: dict[str, Any] = {"group.protocol": "consumer"}
        if options.assignor is not None:
            settings["group.remote.assignor"] = options.assignor
        return settings


def _event(what: str, partitions: list[TopicPartition]) -> Event:
    return Event(what, frozenset((each.topic, each.partition) for each in partitions))
