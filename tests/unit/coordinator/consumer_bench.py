"""A machine on a bench: requests go in, records are written and read back, and time is what the test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any
from uuid import UUID

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import Reply, SetTimer, Step, TimerKey
from ottla.coordinator.group.consumer import events
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.partitions import Partitions, grouped
from ottla.coordinator.group.consumer.requests import Heartbeat, HeartbeatRequest
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.record_codec import decode_record, encode_record
from ottla.coordinator.group.records import Record
from ottla.coordinator.group.requests import JoinRequest, SyncRequest
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage, diff_images
from ottla.protocol.errors import KafkaError

GROUP = "g"
ALL = tuple(range(6))
"""The partitions of a topic that has six."""
UNSET: Any = object()


def topic_id(name: str, version: int = 0) -> UUID:
    return UUID(bytes=f"{name}#{version}".encode().ljust(16, b"\0")[:16])


def image_of(
    topics: Mapping[str, int], version: int = 1, ids: Mapping[str, int] | None = None
) -> ClusterImage:
    made = {
        name: TopicImage(
            name,
            topic_id(name, (ids or {}).get(name, 0)),
            tuple(PartitionImage(index, 0, 0, (0,), (0,), 0) for index in range(size)),
        )
        for name, size in topics.items()
    }
    return ClusterImage(
        version=version, topics=made, names_by_id={each.topic_id: each.name for each in made.values()}
    )


class Bench:
    """A machine, its log, its timers, and the answers to its requests."""

    def __init__(self, topics: Mapping[str, int], **config: str) -> None:
        self.config = BrokerConfig({key.replace("_", "."): value for key, value in config.items()})
        self.image = image_of(topics)
        self.now_ms = 1_000_000
        self.log: list[Record] = []
        self.machine = GroupMachine(self.config, self.image)
        self.timers: dict[TimerKey, int] = {}
        self.replies: dict[int, Any] = {}
        self._tokens = count(1)

    # Requests

    def call(self, event: Callable[..., Step], *args: Any) -> Any:
        """Run an event; return its reply, or its token if it is parked. Raise its error."""
        token = next(self._tokens)
        self._take(event(self.machine, self.now_ms, token, *args))
        if token not in self.replies:
            return token
        reply = self.replies[token]
        if isinstance(reply, KafkaError):
            raise reply
        return reply

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Heartbeat:
        beat = self.call(events.consumer_group_heartbeat, beat_request(member_id, epoch, **fields))
        assert isinstance(beat, Heartbeat)
        return beat

    def join(self, member_id: str, *topics: str, **fields: Any) -> Heartbeat:
        fields = {"subscribed_topics": topics, "rebalance_timeout_ms": 60_000, "owned": {}} | fields
        return self.beat(member_id, 0, **fields)

    def _take(self, step: Step) -> None:
        for record in step.records:
            stored = decode_record(*encode_record(record))  # type: ignore[arg-type]
            assert stored == record
            self.log.append(stored)
            self.machine.replay(stored)
        for change in step.changes:
            self.machine.apply(change)
        for timer in step.timers:
            if isinstance(timer, SetTimer):
                self.timers[timer.key] = timer.at_ms
            else:
                self.timers.pop(timer.key, None)
        for reply in step.replies:
            assert isinstance(reply, Reply)
            assert reply.token not in self.replies
            self.replies[reply.token] = reply.response

    # The world

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, and timers run out."""
        end_ms = self.now_ms + milliseconds
        while due := [key for key, at_ms in self.timers.items() if at_ms <= end_ms]:
            key = min(due, key=lambda each: self.timers[each])
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            if key[0] != "expire":
                self._take(self.machine.on_timer(self.now_ms, key))
        self.now_ms = end_ms

    def change_topics(self, topics: Mapping[str, int], ids: Mapping[str, int] | None = None) -> None:
        """Let the cluster have these topics."""
        old, self.image = self.image, image_of(topics, self.image.version + 1, ids)
        self._take(self.machine.new_image(self.now_ms, self.image, diff_images(old, self.image)))

    def fail_over(self) -> None:
        """Load the log into another machine."""
        self.machine = GroupMachine(self.config, self.image)
        for record in self.log:
            self.machine.replay(record)
        self.timers.clear()
        self._take(self.machine.loaded(self.now_ms))

    # What is

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def held(self, member_id: str) -> Partitions:
        return self.group.members[member_id].current.assigned


def settle(bench: Bench, *member_ids: str) -> None:
    """Let members say what they have until nothing changes any more."""
    for _ in range(6):
        for member_id in member_ids:
            epoch = bench.group.members[member_id].current.epoch
            bench.beat(member_id, epoch, owned=bench.held(member_id))


def beat_request(
    member_id: str,
    epoch: int,
    *,
    group_id: str = GROUP,
    instance_id: str | None = None,
    rack_id: str | None = None,
    rebalance_timeout_ms: int = -1,
    subscribed_topics: tuple[str, ...] | None = None,
    subscribed_regex: str | None = None,
    server_assignor: str | None = None,
    owned: Partitions | None = None,
    fresh_id: str = "fresh",
) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id,
        member_id,
        epoch,
        instance_id,
        rack_id,
        rebalance_timeout_ms,
        subscribed_topics,
        subscribed_regex,
        server_assignor,
        owned,
        "client",
        "/127.0.0.1",
        fresh_id,
    )


def parts(name: str, *indexes: int, version: int = 0) -> Partitions:
    return grouped((topic_id(name, version), index) for index in indexes)


# The classic protocol, as consumers use it


def subscription(topics: list[str], owned: Mapping[str, list[int]] | None = None, version: int = 1) -> bytes:
    def text(value: str) -> bytes:
        return len(value).to_bytes(2, "big") + value.encode()

    def number(value: int) -> bytes:
        return value.to_bytes(4, "big", signed=True)

    data = version.to_bytes(2, "big") + number(len(topics)) + b"".join(map(text, topics)) + number(-1)
    if version >= 1:
        data += number(len(owned or {}))
        for topic, indexes in (owned or {}).items():
            data += text(topic) + number(len(indexes)) + b"".join(map(number, indexes))
    if version >= 2:
        data += number(-1)
    if version >= 3:
        data += number(-1)[:2]
    return data


def join_request(member_id: str, metadata: bytes, **fields: Any) -> JoinRequest:
    values: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": member_id,
        "instance_id": None,
        "client_id": "classic",
        "client_host": "/127.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer",
        "protocols": (("cooperative-sticky", metadata),),
        "fresh_id": "fresh",
        "requires_member_id": False,
    }
    return JoinRequest(**(values | fields))


def sync_request(member_id: str, generation_id: int, **fields: Any) -> SyncRequest:
    values: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": member_id,
        "instance_id": None,
        "generation_id": generation_id,
        "protocol_type": "consumer",
        "protocol_name": "cooperative-sticky",
        "assignments": (),
    }
    return SyncRequest(**(values | fields))
