"""Our own consumers as members of a group: in the classic protocol, and with asyncio in that of KIP-848."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tests.integration.clients import Place
from tests.integration.members import Event, GroupConsumer, MemberOptions, Read
from tests.integration.ottla_client import FRESH, QUICK, translated
from tests.integration.ottla_faces import open_face

from ottla import client as ottla
from ottla.client import BrokerUnreachable, RebalanceListener, TopicPartition

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
REMOTE_ASSIGNORS = ("uniform", "range")


class OttlaMember(GroupConsumer, RebalanceListener):
    face: type[Any] = ottla.Consumer

    def __init__(self, bootstrap: str, options: MemberOptions) -> None:
        self.events: list[Event] = []
        self._library = open_face(
            self.face,
            bootstrap,
            group_id=options.group,
            client_id=options.client_id,
            group_instance_id=options.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=options.auto_commit,
            auto_commit_interval_ms=100,
            fetch_max_wait_ms=100,
            **self._protocol_settings(options),
            **FRESH,
            **QUICK,
        )
        self._library.subscribe(options.topics, listener=self)

    def _protocol_settings(self, options: MemberOptions) -> dict[str, Any]:
        settings: dict[str, Any] = {"session_timeout_ms": options.session_ms, "heartbeat_interval_ms": 100}
        if options.assignor is not None:
            settings["partition_assignment_strategy"] = options.assignor
        return settings

    def poll(self, timeout_s: float) -> list[Read]:
        try:
            polled = self._library.getmany(timeout_ms=timeout_s * 1000)
        except BrokerUnreachable:  # the broker is away; a program polls again
            return []
        return [
            Read(one.topic, one.partition, one.offset, one.value)
            for records in polled.values()
            for one in records
        ]

    def assignment(self) -> set[Place]:
        return {(each.topic, each.partition) for each in self._library.assignment()}

    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        wanted = None
        if offsets is not None:
            wanted = {TopicPartition(*place): offset for place, offset in offsets.items()}
        with translated():
            self._library.commit(wanted)

    def commit_soon(self) -> None:
        self._library.commit_async()

    def committed(self, place: Place) -> int | None:
        asked = TopicPartition(*place)
        with translated():
            found = self._library.committed([asked])[asked]
        return None if found is None else found.offset

    def close(self) -> None:
        self._library.close()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(_event("assigned", partitions))

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(_event("revoked", partitions))

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(_event("lost", partitions))


class OttlaConsumerProtocolMember(OttlaMember):
    face = ottla.AsyncConsumer

    def _protocol_settings(self, options: MemberOptions) -> dict[str, Any]:
        settings: dict[str, Any] = {"group_protocol": "consumer"}
        if options.assignor is not None:
            settings["group_remote_assignor"] = options.assignor
        return settings


def _event(what: str, partitions: Collection[TopicPartition]) -> Event:
    return Event(what, frozenset((each.topic, each.partition) for each in partitions))
