"""The machine as a whole: whatever it is asked, its state equals the replay of its records."""

from itertools import pairwise
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.common.broker_keys import BrokerConfig
from ottla.controller import machine
from ottla.controller.machine import (
    ConfigAlteration,
    ConfigChange,
    Decision,
    NewPartitions,
    NewTopic,
    TopicSelector,
)
from ottla.metadata.image import EMPTY, ClusterImage, TopicImage
from ottla.metadata.records import (
    ConfigResource,
    Endpoint,
    MetadataRecord,
    decode_records,
    encode_records,
)
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

    def take(self, decision: Decision[TopicImage] | Decision[None] | Decision[int] | Decision[str]) -> None:
        self.history += decision.records
        self.image = self.image.apply(decision.records)

    @initialize(brokers=st.integers(1, 3))
    def begin(self, brokers: int) -> None:
        self.take(machine.create_cluster(self.image, "c"))
        for node_id in range(1, brokers + 1):
            self.register(node_id, False)

    @rule(node_id=st.integers(1, 3), unclean=st.booleans())
    def register(self, node_id: int, unclean: bool) -> None:
        before = self.image
        endpoints = (Endpoint("PLAINTEXT", "h", 9092),)
        self.take(
            machine.register_broker(
                self.image, node_id, self.next_id, None, endpoints, after_unclean_stop=unclean
            )
        )
        for name, topic in before.topics.items():
            for old, new in zip(topic.partitions, self.image.topics[name].partitions, strict=True):
                anew = unclean and old.leader == node_id
                assert new.leader_epoch == old.leader_epoch + anew
                assert (new.leader, new.replicas, new.isr) == (old.leader, old.replicas, old.isr)

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
        may_grow = before is not None and count > len(before.partitions)
        assert isinstance(decision.results[0], KafkaError) != may_grow

    @rule(resource=resources, key=keys, value=values, operation=st.integers(0, 4), replacing=st.booleans())
    def alter(
        self, resource: tuple[int, str], key: str, value: str | None, operation: int, replacing: bool
    ) -> None:
        decide = machine.replace_configs if replacing else machine.alter_configs
        alteration = ConfigAlteration(*resource, (ConfigChange(key, value, 0 if replacing else operation),))
        self.take(decide(self.image, [alteration], CONFIG))

    @rule()
    def elect(self) -> None:
        self.take(machine.elect_controller(self.image, 1, self.image.controller_epoch + 1))

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
                assert each.leader in each.isr
                assert set(each.isr) <= set(each.replicas)
        for resource_type, name in self.image.configs:
            assert resource_type == ConfigResource.BROKER or name in self.names


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


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
    image = EMPTY.apply(machine.create_cluster(EMPTY, "first").records)
    decision = machine.create_cluster(image, "second")
    assert decision == Decision((), ("first",))
