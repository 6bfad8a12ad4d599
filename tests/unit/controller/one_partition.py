"""A cluster with one topic of one partition, to ask the controller's machine about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from ottla.common.config.broker import BrokerConfig
from ottla.controller import machine
from ottla.controller.machine import Decision, NewTopic
from ottla.metadata.entities import IsrChange
from ottla.metadata.image import EMPTY, ClusterImage, PartitionImage
from ottla.metadata.records import ConfigChanged, ConfigResource, Endpoint
from ottla.metadata.registration import BrokerRegistration, SessionInfo

CONFIG = BrokerConfig({"node.id": "1"})
TOPIC_ID = UUID(int=7)
HERE = (Endpoint("PLAINTEXT", "h", 9092),)


class OnePartition:
    """The partition `orders-0`; brokers come and go by their sessions."""

    def __init__(
        self,
        replicas: Iterable[int] = (1, 2, 3),
        *,
        brokers: Iterable[int] = (),
        directories: dict[int, str] | None = None,
        **configs: str,
    ) -> None:
        self.image: ClusterImage = EMPTY
        self.sessions: dict[int, SessionInfo] = {}
        self.epoch = 0
        self.directories = directories or {}
        """The log directory that each broker has when it starts."""
        replicas = tuple(replicas)
        self.take(machine.become_controller(self.image, 1, 1, "c"))
        self.start(*sorted({*replicas, *brokers}))
        topic = NewTopic("orders", assignments=((0, replicas),))
        self.take(machine.create_topics(self.image, [topic], [TOPIC_ID], CONFIG))
        for key, value in configs.items():
            self.set(key.replace("_", "."), value)

    def take(self, decision: Decision[Any]) -> Any:
        """Make a decision true; return its first result."""
        self.image = self.image.apply(decision.records)
        return decision.results[0]

    @property
    def partition(self) -> PartitionImage:
        return self.image.topics["orders"].partitions[0]

    @property
    def shape(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return leader, ISR and ELR."""
        return self.partition.leader, self.partition.isr, self.partition.elr

    def set(self, key: str, value: str) -> None:
        self.image = self.image.apply([ConfigChanged(ConfigResource.TOPIC, "orders", key, value)])

    def start(self, *nodes: int, unclean: bool = False, seems_whole: bool = False) -> None:
        """Open new sessions for brokers, all seen at once; those they had are over."""
        for node_id in nodes:
            self.epoch += 1
            registration = BrokerRegistration(
                HERE,
                directory_id=self.directories.get(node_id, ""),
                after_unclean_stop=unclean,
                seems_whole=seems_whole,
            )
            self.sessions[node_id] = SessionInfo(node_id, self.epoch, registration)
        self.follow()

    def kill(self, *nodes: int) -> None:
        """End sessions, all seen at once."""
        for node_id in nodes:
            self.sessions.pop(node_id, None)
        self.follow()

    def ask_to_stop(self, node_id: int) -> None:
        self.report(node_id, wants_shutdown=True)

    def report(self, node_id: int, **fields: Any) -> None:
        """Let a running broker publish something."""
        session = self.sessions[node_id]
        self.sessions[node_id] = replace(session, registration=replace(session.registration, **fields))
        self.follow()

    def follow(self) -> None:
        self.take(machine.sync_sessions(self.image, list(self.sessions.values()), CONFIG))

    def change(self, *isr: int, **other: Any) -> IsrChange:
        """Return a change of the ISR that the leader may ask for, unless `other` says otherwise."""
        members = tuple((each, self.image.brokers[each].epoch) for each in isr)
        known = self.partition
        fair = IsrChange(TOPIC_ID, 0, known.leader_epoch, known.partition_epoch, members)
        return fair._replace(**other)

    def alter(self, *isr: int, **other: Any) -> Any:
        """Let the leader ask for an ISR; return the answer."""
        leader = self.image.brokers[self.partition.leader]
        change = self.change(*isr, **other)
        return self.take(machine.alter_partitions(self.image, leader.node_id, leader.epoch, [change], CONFIG))
