"""The law of elections: whoever leads has every committed record.

The model knows how many records each replica has and how many are committed. A leader commits with all of
its ISR, if that is large enough for its own configuration, which may differ from the controller's, and no
other replica may be elected; a broker back from an unclean stop has lost everything, or nothing if only
its disk failed. A leader that misses committed records is allowed only when every replica that was eligible
has lost records: then the last leader, unless its disk was replaced.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.controller.one_partition import CONFIG, TOPIC_ID, OnePartition

from ottla.common.ids import TopicPartition
from ottla.controller import machine
from ottla.controller.machine import ConfigAlteration, ConfigChange, Reassignment
from ottla.metadata.records import ConfigResource
from ottla.metadata.registration import group_replicas

BROKERS = (1, 2, 3, 4)
HERE = group_replicas([(TOPIC_ID, 0)])
node_ids = st.sampled_from(BROKERS)
some_nodes = st.sets(node_ids, min_size=1, max_size=2)
CLEAN, LOST, DOUBTFUL, REPLACED = "clean", "lost", "doubtful", "replaced"
stops = st.sampled_from((CLEAN, LOST, DOUBTFUL, REPLACED))


class Records(RuleBasedStateMachine):
    """One partition and its records."""

    @initialize(min_isr=st.integers(1, 3), leaders_minimum=st.integers(1, 3))
    def begin(self, min_isr: int, leaders_minimum: int) -> None:
        self.cluster = OnePartition(
            (1, 2, 3),
            brokers=BROKERS,
            directories={each: f"disk {each}" for each in BROKERS},
            min_insync_replicas=str(min_isr),
        )
        self.leaders_minimum = leaders_minimum
        self.committed = 0
        self.has = dict.fromkeys(BROKERS, 0)
        self.doubted: set[int] = set()  # had everything when their disk failed
        self.empty: set[int] = set()  # a new disk, and not in sync since
        self.leader_epochs: dict[int, int] = {}
        self.before = self.cluster.partition
        self.after()

    def after(self, lost: frozenset[int] = frozenset()) -> None:
        """Look at who leads now; admit the one case in which committed records may be missing."""
        partition, leader = self.cluster.partition, self.cluster.partition.leader
        if leader < 0:
            return
        assert leader not in self.empty, f"{leader} has a new disk"
        known = self.leader_epochs.setdefault(partition.leader_epoch, leader)
        assert known == leader, "two leaders of one epoch"
        if self.has[leader] < self.committed:
            eligible = {*self.before.isr, *self.before.elr} - self.doubted
            assert not self.doubted, f"{leader} misses committed records of {self.doubted}"
            assert eligible <= lost, f"{leader} misses committed records of {eligible - lost}"
            assert leader == (
                self.before.leader if self.before.leader >= 0 else self.before.last_known_elr[-1]
            )
            self.committed = self.has[leader]
        for follower in partition.replicas:
            self.has[follower] = min(self.has[follower], self.has[leader])  # truncated when it follows
        self.commit()

    @property
    def led(self) -> bool:
        return self.cluster.partition.leader >= 0

    def commit(self) -> None:
        partition = self.cluster.partition
        if partition.leader < 0 or partition.elr or partition.last_known_elr:
            return
        self.doubted.clear()  # as far as the controller knows, something may be committed that they lack
        if len(partition.isr) >= min(self.leaders_minimum, len(partition.replicas)):
            self.committed += 1
            for member in partition.isr:
                self.has[member] = self.committed

    @rule(nodes=some_nodes)
    def kill(self, nodes: set[int]) -> None:
        self.before = self.cluster.partition
        self.cluster.kill(*nodes)
        self.after()

    @rule(nodes=some_nodes, stop=stops)
    def start(self, nodes: set[int], stop: str) -> None:
        self.before = self.cluster.partition
        if stop == REPLACED:
            self.empty |= nodes
            for node_id in nodes:
                self.cluster.directories[node_id] += " replaced"
        if stop in (LOST, REPLACED):
            self.doubted -= nodes
            for node_id in nodes:
                self.has[node_id] = 0
        elif stop == DOUBTFUL:
            self.doubted |= nodes & {*self.before.isr, *self.before.elr}
        self.cluster.start(*nodes, unclean=stop != CLEAN, seems_whole=stop == DOUBTFUL)
        self.after(frozenset(nodes) if stop in (LOST, REPLACED) else frozenset())

    @rule(node_id=node_ids, stop=stops)
    def restart(self, node_id: int, stop: str) -> None:
        self.kill({node_id})
        self.start({node_id}, stop)

    @rule(node_id=node_ids)
    def ask_to_stop(self, node_id: int) -> None:
        self.before = self.cluster.partition
        if node_id in self.cluster.sessions:
            self.cluster.ask_to_stop(node_id)
        self.after()

    @rule(node_id=node_ids, disk=st.sampled_from(("full_replicas", "offline_replicas")), is_bad=st.booleans())
    def report_a_disk(self, node_id: int, disk: str, is_bad: bool) -> None:
        self.before = self.cluster.partition
        if node_id in self.cluster.sessions and node_id in self.cluster.partition.replicas:
            self.cluster.report(node_id, **{disk: HERE if is_bad else ()})
        self.after()

    @precondition(lambda self: self.led)
    @rule(node_id=node_ids)
    def catch_up_and_join(self, node_id: int) -> None:
        self.before = partition = self.cluster.partition
        if node_id in partition.replicas and node_id not in partition.isr:
            self.has[node_id] = self.has[partition.leader]
            self.empty.discard(node_id)
            self.cluster.alter(*partition.isr, node_id)
        self.after()

    @precondition(lambda self: self.led)
    @rule(node_id=node_ids)
    def fall_behind(self, node_id: int) -> None:
        self.before = partition = self.cluster.partition
        if node_id != partition.leader:
            self.cluster.alter(*(each for each in partition.isr if each != node_id))
        self.after()

    @rule(goal=st.lists(node_ids, min_size=1, max_size=3, unique=True).map(tuple) | st.none())
    def reassign(self, goal: tuple[int, ...] | None) -> None:
        self.before = self.cluster.partition
        self.cluster.take(machine.reassign(self.cluster.image, [Reassignment("orders", 0, goal)], CONFIG))
        for node_id in set(BROKERS) - set(self.cluster.partition.replicas):
            self.has[node_id] = 0  # its log is deleted
            self.doubted.discard(node_id)
            self.empty.discard(node_id)
        self.after()

    @rule()
    def elect_preferred(self) -> None:
        self.before = self.cluster.partition
        self.cluster.take(machine.elect_leaders(self.cluster.image, 0, [TopicPartition("orders", 0)], CONFIG))
        self.after()

    @rule(min_isr=st.integers(1, 3))
    def change_minimum(self, min_isr: int) -> None:
        self.before = self.cluster.partition
        change = ConfigChange("min.insync.replicas", str(min_isr))
        alteration = ConfigAlteration(ConfigResource.TOPIC, "orders", (change,))
        decision = machine.alter_configs(self.cluster.image, [alteration], CONFIG)
        self.cluster.take(machine.with_elections(self.cluster.image, decision, CONFIG))
        self.after()

    @rule(minimum=st.integers(1, 3))
    def change_the_leaders_minimum(self, minimum: int) -> None:
        self.before = self.cluster.partition
        self.leaders_minimum = minimum
        self.after()

    @invariant()
    def whoever_is_in_sync_has_everything(self) -> None:
        partition = self.cluster.partition
        for member in (*partition.isr, *partition.elr):
            assert self.has[member] >= self.committed, partition


TestRecords = Records.TestCase
TestRecords.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
