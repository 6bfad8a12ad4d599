"""The machine as a whole: whatever it is asked, its state equals the replay of its records."""

from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.controller import machine
from ottla.controller.machine import (
    ConfigAlteration,
    ConfigChange,
    Decision,
    NewPartitions,
    NewTopic,
    Reassignment,
    TopicSelector,
)
from ottla.metadata.entities import IsrChange
from ottla.metadata.image import EMPTY, ClusterImage, PartitionImage
from ottla.metadata.records import (
    ConfigResource,
    Endpoint,
    MetadataRecord,
    decode_records,
    encode_records,
)
from ottla.metadata.registration import BrokerRegistration, SessionInfo
from ottla.protocol.errors import KafkaError

CONFIG = BrokerConfig({"node.id": "1"})
names = st.sampled_from(["a", "b", "a.b", "a_b", "c", "bad name"])
counts = st.integers(-1, 4)
values = st.sampled_from(["1", "100", "delete", "compact", "", None])
keys = st.sampled_from(["retention.ms", "cleanup.policy", "log.retention.ms", "nonsense"])
resources = st.tuples(st.sampled_from([2, 4, 8]), st.sampled_from(["", "1", "2", "a", "b"]))


class Cluster(RuleBasedStateMachine):
    """Asks at random, and keeps the simplest possible model: a set of names."""

    def __init__(self) -> None:
        super().__init__()
        self.image = EMPTY
        self.history: list[MetadataRecord] = []
        self.names: set[str] = set()
        self.next_id = 1
        self.sessions: dict[int, SessionInfo] = {}

    def take(self, decision: Decision[Any]) -> None:
        self.history += decision.records
        self.image = self.image.apply(decision.records)

    @initialize(brokers=st.integers(1, 3))
    def begin(self, brokers: int) -> None:
        self.take(machine.become_controller(self.image, 1, 1, "c"))
        for node_id in range(1, brokers + 1):
            self.register(node_id, False)

    @rule(node_id=st.integers(1, 3), unclean=st.booleans())
    def register(self, node_id: int, unclean: bool) -> None:
        before = self.image
        self.next_id += 1
        registration = BrokerRegistration((Endpoint("PLAINTEXT", "h", 9092),), after_unclean_stop=unclean)
        self.sessions[node_id] = SessionInfo(node_id, self.next_id, registration)
        self.sync_sessions()
        for name, topic in before.topics.items():
            for old, new in zip(topic.partitions, self.image.topics[name].partitions, strict=True):
                if unclean and old.leader == node_id:
                    assert new.leader_epoch > old.leader_epoch

    @rule(node_id=st.integers(1, 3))
    def lose_session(self, node_id: int) -> None:
        self.sessions.pop(node_id, None)
        self.sync_sessions()
        if node_id in self.image.brokers:
            assert self.image.brokers[node_id].fenced

    @rule(node_id=st.integers(1, 3))
    def ask_to_stop(self, node_id: int) -> None:
        if (session := self.sessions.get(node_id)) is not None:
            wanted = replace(session.registration, wants_shutdown=True)
            self.sessions[node_id] = replace(session, registration=wanted)
            self.sync_sessions()
            assert not machine.has_leaders_to_move(self.image, node_id)

    @rule(node_id=st.integers(1, 3))
    def unregister(self, node_id: int) -> None:
        self.take(machine.unregister_broker(self.image, node_id))

    def sync_sessions(self) -> None:
        self.take(machine.sync_sessions(self.image, list(self.sessions.values()), CONFIG))
        again = machine.sync_sessions(self.image, list(self.sessions.values()), CONFIG)
        assert again.records == ()  # everything that follows has been decided

    @rule(name=names, goal=st.lists(st.integers(1, 3), max_size=3).map(tuple) | st.none())
    def reassign(self, name: str, goal: tuple[int, ...] | None) -> None:
        self.take(machine.reassign(self.image, [Reassignment(name, 0, goal)], CONFIG))

    @rule(name=names, kind=st.integers(0, 1))
    def elect_leader(self, name: str, kind: int) -> None:
        self.take(machine.elect_leaders(self.image, kind, [TopicPartition(name, 0)], CONFIG))

    @rule()
    def balance(self) -> None:
        self.take(machine.balance_leaders(self.image, CONFIG))

    @rule(name=names, isr=st.sets(st.integers(1, 3), min_size=1))
    def alter_partition(self, name: str, isr: set[int]) -> None:
        partition = self.image.partition(name, 0)
        if partition is None or partition.leader < 0:
            return
        members = tuple((each, -1) for each in sorted(isr))
        change = IsrChange(
            self.image.topics[name].topic_id, 0, partition.leader_epoch, partition.partition_epoch, members
        )
        leader = self.image.brokers[partition.leader]
        self.take(machine.alter_partitions(self.image, leader.node_id, leader.epoch, [change], CONFIG))

    @rule(name=names, count=counts, factor=counts, key=keys, value=values)
    def create(self, name: str, count: int, factor: int, key: str, value: str | None) -> None:
        self.next_id += 1
        configs = ((key, value),) if value else ()
        topic = NewTopic(name, count, factor, configs=configs)
        decision = machine.create_topics(self.image, [topic], [UUID(int=self.next_id)], CONFIG)
        self.take(decision)
        if not isinstance(decision.results[0], KafkaError):
            self.names.add(name)

    @rule(name=names)
    def delete(self, name: str) -> None:
        decision = machine.delete_topics(self.image, [TopicSelector(name)])
        self.take(decision)
        assert isinstance(decision.results[0], KafkaError) == (name not in self.names)
        self.names.discard(name)

    @rule(name=names, count=st.integers(0, 8))
    def grow(self, name: str, count: int) -> None:
        before = self.image.topics.get(name)
        decision = machine.create_partitions(self.image, [NewPartitions(name, count)])
        self.take(decision)
        if before is None or count <= len(before.partitions):
            assert isinstance(decision.results[0], KafkaError)

    @rule(resource=resources, key=keys, value=values, operation=st.integers(0, 4), replacing=st.booleans())
    def alter(
        self, resource: tuple[int, str], key: str, value: str | None, operation: int, replacing: bool
    ) -> None:
        decide = machine.replace_configs if replacing else machine.alter_configs
        alteration = ConfigAlteration(*resource, (ConfigChange(key, value, 0 if replacing else operation),))
        self.take(decide(self.image, [alteration], CONFIG))

    @rule()
    def elect(self) -> None:
        self.take(machine.become_controller(self.image, 1, self.image.controller_epoch + 1, "other"))
        assert self.image.cluster_id == "c"

    @invariant()
    def state_equals_the_replay_of_its_records(self) -> None:
        replayed = EMPTY.apply(decode_records(encode_records(self.history)), self.image.version)
        assert replayed == self.image

    @invariant()
    def the_image_makes_sense(self) -> None:
        assert set(self.image.topics) == self.names
        for name, topic in self.image.topics.items():
            assert self.image.topic_by_id(topic.topic_id) is topic
            assert topic.partitions, name
            for index, each in enumerate(topic.partitions):
                assert each.index == index
                self.a_partition_makes_sense(each)
        for resource_type, name in self.image.configs:
            assert resource_type == ConfigResource.BROKER or name in self.names

    def a_partition_makes_sense(self, partition: PartitionImage) -> None:
        replicas = set(partition.replicas)
        assert len(replicas) == len(partition.replicas) > 0
        assert {*partition.isr, *partition.elr} <= replicas
        assert not set(partition.isr) & set(partition.elr)
        assert {*partition.adding, *partition.removing} <= replicas
        assert (partition.leader in partition.isr) == bool(partition.isr)
        alive = {each.node_id for each in self.image.brokers.values() if not each.fenced}
        assert alive >= set(partition.isr)
        assert not partition.isr or not partition.last_known_elr


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_producer_ids_are_given_once() -> None:
    image: ClusterImage = EMPTY
    blocks = []
    for count in (1000, 1, 10):
        decision = machine.allocate_producer_ids(image, count)
        image = image.apply(decision.records)
        (block,) = decision.results
        assert isinstance(block, range)
        blocks.append(block)
    assert [len(block) for block in blocks] == [1000, 1, 10]
    assert all(first.stop == second.start for first, second in pairwise(blocks))


def test_a_cluster_keeps_its_first_id() -> None:
    image = EMPTY.apply(machine.become_controller(EMPTY, 1, 1, "first").records)
    assert machine.become_controller(image, 1, 1, "second") == Decision((), ("first",))
