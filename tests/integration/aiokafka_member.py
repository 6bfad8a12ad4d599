"""aiokafka as a member of a group, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from tests.integration.aiokafka_client import AiokafkaLoop
from tests.integration.clients import Place
from tests.integration.members import Event, GroupConsumer, MemberOptions, Read

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AiokafkaMember(GroupConsumer, ConsumerRebalanceListener):
    def __init__(self, bootstrap: str, options: MemberOptions) -> None:
        self.events: list[Event] = []
        self._loop = AiokafkaLoop()
        self._commits: list[asyncio.Task[Any]] = []
        self._loop.run(self._start(bootstrap, options))

    async def _start(self, bootstrap: str, options: MemberOptions) -> None:
        settings: dict[str, Any] = {}
        if options.assignor is not None:
            settings["partition_assignment_strategy"] = [ASSIGNORS[options.assignor]]
        self._library = AIOKafkaConsumer(
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
            retry_backoff_ms=20,
            **settings,
        )
        self._library.subscribe(list(options.topics), listener=self)
        await self._library.start()

    def poll(self, timeout_s: float) -> list[Read]:
        polled = self._loop.run(self._library.getmany(timeout_ms=int(timeout_s * 1000)))
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
        self._loop.run(self._library.commit(wanted))

    def commit_soon(self) -> None:
        async def begin() -> None:
            self._commits.append(asyncio.create_task(self._library.commit()))

        self._loop.run(begin())

    def committed(self, place: Place) -> int | None:
        return self._loop.run(self._library.committed(TopicPartition(*place)))

    def close(self) -> None:
        self._loop.run(self._stop())
        self._loop.stop()

    async def _stop(self) -> None:
        await asyncio.gather(*self._commits)
        await self._library.stop()

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.events.append(_event("revoked", revoked))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.events.append(_event("assigned", assigned))


def _event(what: str, partitions: Any) -> Event:
    return Event(what, frozenset((each.topic, each.partition) for each in partitions))
