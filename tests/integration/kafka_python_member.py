"""kafka-python as a member of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaConnectionError
from kafka.structs import OffsetAndMetadata
from tests.integration.clients import Place
from tests.integration.kafka_python_client import QUICK, translated
from tests.integration.members import Event, GroupConsumer, MemberOptions, Read

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class KafkaPythonMember(GroupConsumer, ConsumerRebalanceListener):
    def __init__(self, bootstrap: str, options: MemberOptions) -> None:
        self.events: list[Event] = []
        settings: dict[str, Any] = {}
        if options.assignor is not None:
            settings["partition_assignment_strategy"] = [ASSIGNORS[options.assignor]]
        self._library = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=options.group,
            client_id=options.client_id,
            group_instance_id=options.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=options.auto_commit,
            auto_commit_interval_ms=100,
            session_timeout_ms=options.session_ms,
            heartbeat_interval_ms=100,
            metadata_max_age_ms=500,
            fetch_max_wait_ms=100,
            **settings,
            **QUICK,
        )
        self._library.subscribe(list(options.topics), listener=self)

    def poll(self, timeout_s: float) -> list[Read]:
        try:
            polled = self._library.poll(timeout_ms=int(timeout_s * 1000))
        except KafkaConnectionError:  # the broker is away; a program polls again
            return []
        self._remember_to_join()
        return [
            Read(one.topic, one.partition, one.offset, one.value)
            for records in polled.values()
            for one in records
        ]

    def _remember_to_join(self) -> None:
        """Help over a gap in kafka-python 3.0: a poll that ends just before SyncGroup is answered.

        A leader that rejoins because partitions were added counts as joined once it has made the assignment;
        if the poll ends then, no later one asks for the outcome, and without heartbeats the member is lost.
        """
        coordinator = self._library._coordinator
        if coordinator._join_task is not None:
            coordinator.rejoin_needed = True

    def assignment(self) -> set[Place]:
        return {(each.topic, each.partition) for each in self._library.assignment()}

    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        wanted = None
        if offsets is not None:
            wanted = {
                TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()
            }
        with translated():
            self._library.commit(wanted)

    def commit_soon(self) -> None:
        self._library.commit_async()

    def committed(self, place: Place) -> int | None:
        with translated():
            return self._library.committed(TopicPartition(*place))

    def close(self) -> None:
        self._library.close()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.events.append(_event("revoked", revoked))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.events.append(_event("assigned", assigned))

    def on_partitions_lost(self, lost: Any) -> None:
        self.events.append(_event("lost", lost))


def _event(what: str, partitions: Any) -> Event:
    return Event(what, frozenset((each.topic, each.partition) for each in partitions))
