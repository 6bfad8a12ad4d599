"""The meaning of a seed: the size of the cluster, its settings, and its faults.

The plan keeps the conditions of the guarantees: all nodes may be killed, paused and cut off at any time, but
the power fails on one node only, always the same, unless the topics flush before they acknowledge. Or the
disk of one node is replaced, once. Where every kill looks like a power failure, or the power of all nodes may
fail, no replica may be eligible as a leader: in the end, the operator puts the former disk back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from ottla.testing.simulation.faults import CONTROLLER, COORDINATOR, FOLLOWER, LEADER, PAIRED, WEIGHTS, Fault

FAULTS_UNTIL_S = 6.0
LOSES_DECISIONS = 0.15
"""How many plans of transactions let the coordinators forget what they decided last."""
OVERSLEEPS = 0.15
"""How many plans have members of the group that stand still past their session and then commit."""
DISAGREES = 0.15
"""How many plans have brokers that are started with different min.insync.replicas."""
CLEANS = 0.2
"""How many plans compact the brokers' own topics all the time."""
ROLLS_BACK = 0.06
"""How many plans restore the store from an old snapshot."""
EAGER_CLEANER = {"log.cleaner.backoff.ms": "50", "log.segment.delete.delay.ms": "100"}
SMALL_SEGMENTS = {
    "offsets.topic.segment.bytes": "800",
    "transaction.state.log.segment.bytes": "800",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
BROKEN = ("kill", "pause", "isolate", "cut from store", "restart")
"""What makes a leader lead no longer."""


@dataclass(frozen=True)
class Plan:
    """One scenario. The seed also drives everything that the plan does not name, such as delays."""

    seed: int
    nodes: int = 3
    partitions: int = 2
    replicas: int = 3
    min_insync: int = 2
    min_insync_of: tuple[int, ...] = ()
    """The min.insync.replicas that each broker is started with; then topics have none of their own."""
    flush_on_ack: bool = False
    segment_bytes: int | None = None
    session_timeout_s: float = 1.5
    hasty: bool = False
    """Whether a producer does not wait for the followers (acks=1)."""
    group: bool = False
    """Whether a consumer group reads and commits, too."""
    oversleeps: bool = False
    """Whether members of the group stand still past their session, and commit what is old by then."""
    loses_decisions: bool = False
    """Whether the power fails everywhere, and only the topic with the records is flushed before an answer."""
    racks: bool = False
    """Whether readers read from a replica in their rack."""
    forgets_boots: bool = False
    """Whether every kill looks like a power failure to the broker that starts again."""
    cleans_own_topics: bool = False
    """Whether the brokers' own topics are compacted all the time."""
    settings: dict[str, str] = field(default_factory=dict)
    topic_configs: dict[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    until_s: float = FAULTS_UNTIL_S

    @property
    def may_wait_for_disk(self) -> bool:
        """Whether a partition may have no electable replica without the replaced disk."""
        is_replaced = any(each.kind.endswith("disk replaced") for each in self.faults)
        return is_replaced and (self.forgets_boots or self.flush_on_ack)

    def without(self, at: int) -> Plan:
        """Return the plan without one of its faults."""
        return replace(self, faults=self.faults[:at] + self.faults[at + 1 :])

    def __str__(self) -> str:
        flush = ", flush on ack" if self.flush_on_ack else ""
        flush += ", every kill looks like a power failure" if self.forgets_boots else ""
        flush += ", but for decisions" if self.loses_decisions else ""
        min_insync = self.min_insync_of or self.min_insync
        lines = [
            f"seed {self.seed}: {self.nodes} brokers, {self.partitions} partitions, {self.replicas} replicas,"
            f" min.insync {min_insync}{flush}, session {self.session_timeout_s:.2f} s, {self.settings}",
            *(f"  {fault}" for fault in self.faults),
        ]
        return "\n".join(lines)


def make_plan(seed: int, nodes: int | None = None) -> Plan:
    """Draw a plan from a seed."""
    chance = Random(f"plan {seed}")
    nodes = nodes or chance.choice((3, 3, 3, 3, 4))
    flush_on_ack = chance.random() < 0.25 or nodes == 1
    session_timeout_s = chance.choice((0.5, 1.0, 2.0))
    node_ids = range(1, nodes + 1)
    faults = _single_faults(chance, node_ids)
    if nodes > 1 and chance.random() < 0.6:
        faults += chance.choice(STORMS)(chance, session_timeout_s)
    is_replaced = any(each.kind == "disk replaced" for each in faults)
    forgets_boots = chance.random() < (0.5 if is_replaced else 0.2)
    faults = _survivable(chance, faults, node_ids, any_power_cut=flush_on_ack, forgets_boots=forgets_boots)
    if flush_on_ack and chance.random() < 0.4:
        faults += _power_cut_of_all(chance, node_ids)
    faults += _starved_nodes(Random(f"starved {seed}"), node_ids)
    disagreeing = Random(f"disagrees {seed}")
    disagrees = nodes > 1 and disagreeing.random() < DISAGREES
    if disagrees:
        faults = _lone_leader(disagreeing, faults, session_timeout_s)
    faults += _rolled_back_store(Random(f"rolled back {seed}"), faults, session_timeout_s)
    cleans_own_topics = Random(f"own topics {seed}").random() < CLEANS
    cleaner = (EAGER_CLEANER | SMALL_SEGMENTS) if cleans_own_topics else {}
    return Plan(
        seed=seed,
        cleans_own_topics=cleans_own_topics,
        nodes=nodes,
        partitions=chance.choice((1, 2, 2, 3)),
        replicas=2 if disagrees else min(3, nodes),
        min_insync=min(2, nodes),
        min_insync_of=tuple(disagreeing.choices((1, 2), k=nodes)) if disagrees else (),
        flush_on_ack=flush_on_ack,
        forgets_boots=forgets_boots,
        segment_bytes=chance.choice((None, None, 1_000, 4_000)),
        session_timeout_s=session_timeout_s,
        racks=chance.random() < 0.25,
        group=True,
        oversleeps=Random(f"oversleeps {seed}").random() < OVERSLEEPS,
        hasty=chance.random() < 0.15,
        settings=_settings(chance) | cleaner | ({"log.flush.interval.messages": "1"} if flush_on_ack else {}),
        faults=tuple(sorted(faults)),
        until_s=max([FAULTS_UNTIL_S, *(each.at_s + each.for_s for each in faults)]),
    )


def make_transaction_plan(seed: int, nodes: int | None = None) -> Plan:
    """Draw a plan for transactions: with brokers that keep their own topics as safe as others theirs."""
    plan = _agreeing(make_plan(seed, nodes or 3))
    chance = Random(f"transactions {seed}")
    settings = {
        "min.insync.replicas": plan.min_insync,
        "offsets.topic.num.partitions": chance.choice((1, 2)),
        "transaction.state.log.num.partitions": chance.choice((1, 2, 3)),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": chance.choice((100, 400)),
        "transaction.two.phase.commit.enable": "true",
    }
    unsuited = ("full disk", "broken disk", "store rolled back")
    faults = [each for each in plan.faults if each.kind not in unsuited]
    if chance.random() < 0.5:
        faults += _lost_coordinators(chance)
    if plan.nodes == 3 and chance.random() < 0.6:
        faults += _partly_delivered(chance)
    if chance.random() < 0.5:
        faults += _late_requests(chance)
    plan = replace(plan, group=False, settings=plan.settings | {k: str(v) for k, v in settings.items()})
    if plan.nodes == 3 and chance.random() < LOSES_DECISIONS:
        return _with_lost_decisions(chance, plan)
    return replace(
        plan,
        faults=tuple(sorted(faults)),
        until_s=max([plan.until_s, *(each.at_s + each.for_s for each in faults)]),
    )


def make_compaction_plan(seed: int, nodes: int | None = None) -> Plan:
    """Draw a plan for compacted topics.

    Tombstones go after a moment, or never: they may go only once the power cannot take them any more. For the
    same reason no former disk is put back: it would not learn what was deleted meanwhile.
    """
    plan = _agreeing(make_plan(seed, nodes))
    chance = Random(f"compaction {seed}")
    keeps_tombstones = chance.random() < 0.3
    unsuited = ["store rolled back"] + (["clock"] if keeps_tombstones else [])
    too_much = ["disk replaced"] if plan.may_wait_for_disk else []
    too_much += [] if keeps_tombstones or plan.flush_on_ack else ["power failure"]
    faults = [
        each._replace(kind="kill") if each.kind in too_much else each
        for each in plan.faults
        if each.kind not in unsuited
    ]
    configs = {
        "cleanup.policy": Random(f"policy {seed}").choice(("compact", "compact", "compact,delete", "delete")),
        "segment.bytes": chance.choice((300, 600, 1_200)),
        "min.cleanable.dirty.ratio": chance.choice(("0.01", "0.3")),
        "delete.retention.ms": 3_600_000 if keeps_tombstones else chance.choice((0, 100, 500)),
    }
    return replace(
        plan,
        group=False,
        hasty=False,
        segment_bytes=None,
        settings=plan.settings | EAGER_CLEANER,
        topic_configs={key: str(value) for key, value in configs.items()},
        faults=tuple(sorted(faults)),
    )


def _agreeing(plan: Plan) -> Plan:
    """Return the plan with brokers of one configuration: disks are lost in it."""
    return replace(plan, replicas=min(3, plan.nodes), min_insync_of=())


TWO_DISKS = {"log.dirs": "/data/{host},/data/{host}-b", "offsets.topic.num.partitions": "2"}


def make_disks_plan(seed: int, nodes: int | None = None) -> Plan:
    """Draw a plan for brokers with two log directories: one is full, dies, is missing, or is replaced."""
    plan = _agreeing(make_plan(seed, nodes))
    chance = Random(f"disks {seed}")
    faults = [
        each._replace(kind="one disk replaced" if each.kind == "disk replaced" else each.kind)
        for each in plan.faults
        if each.kind != "store rolled back"  # which happens alone
    ]
    kinds = ["one disk dead", "one disk missing"]
    may_lose = not any(each.kind in ("power failure", "one disk replaced") for each in faults)
    if may_lose and plan.nodes > 1 and chance.random() < 0.7:
        faults += [
            each._replace(kind="one disk replaced" if each.kind == "disk replaced" else each.kind)
            for each in _lost_disk(chance, plan.session_timeout_s)
        ]
    for _ in range(chance.randint(1, 2)):
        at_s, node = chance.uniform(0.5, 4.0), chance.choice((LEADER, FOLLOWER, CONTROLLER))
        faults.append(Fault(at_s, chance.uniform(0.3, 2.5), chance.choice(kinds), node))
    is_replaced = any(each.kind == "one disk replaced" for each in faults)
    if not (is_replaced and (plan.forgets_boots or plan.flush_on_ack)):  # no former disk is put back
        for _ in range(chance.randint(1, 4)):
            faults.append(
                Fault(chance.uniform(0.5, 5.5), 0.1, "move replicas", chance.choice((1, 2, LEADER)))
            )
    full = Random(f"one disk full {seed}")
    for _ in range(full.randint(0, 2)):
        node = full.choice((LEADER, LEADER, FOLLOWER, CONTROLLER))
        faults.append(Fault(full.uniform(0.4, 4.0), full.uniform(0.3, 3.0), "one disk full", node))
    return replace(
        plan,
        partitions=chance.choice((2, 3, 4)),
        settings=plan.settings | TWO_DISKS,
        faults=tuple(sorted(faults)),
        until_s=max([plan.until_s, *(each.at_s + each.for_s for each in faults)]),
    )


def _with_lost_decisions(chance: Random, plan: Plan) -> Plan:
    """Return the plan with another end: all brokers lose the tail of the coordinators' topics."""
    settings = {key: value for key, value in plan.settings.items() if key != "log.flush.interval.messages"}
    faults = _power_cut_of_all(chance, range(1, plan.nodes + 1))
    return replace(plan, flush_on_ack=True, loses_decisions=True, settings=settings, faults=tuple(faults))


def _settings(chance: Random) -> dict[str, str]:
    lag_ms = chance.choice((300, 600, 1200))
    settings = {
        "replica.lag.time.max.ms": lag_ms,
        "replica.fetch.wait.max.ms": min(lag_ms, chance.choice((100, 250, 500))),
        "replica.fetch.backoff.ms": chance.choice((50, 200, 500)),
        "replica.socket.timeout.ms": chance.choice((600, 1500, 3000)),
        "replica.high.watermark.checkpoint.interval.ms": chance.choice((200, 1000, 5000)),
    }
    if chance.random() < 0.4:  # followers catch up in many small steps
        settings["replica.fetch.response.max.bytes"] = 200
    return {key: str(value) for key, value in settings.items()}


def _survivable(
    chance: Random, faults: list[Fault], nodes: Sequence[int], *, any_power_cut: bool, forgets_boots: bool
) -> list[Fault]:
    """Return the faults without those that lose more than is promised: they become kills.

    Data is lost on one node only, by power failures or because its disk is replaced, unless topics flush.
    """
    fragile = chance.choice(nodes)
    replaced = [each for each in sorted(faults) if each.kind == "disk replaced" and len(nodes) > 1][:1]
    may_lose_power = not replaced and not forgets_boots
    bearable = []
    for fault in faults:
        if fault.kind == "disk replaced" and fault not in replaced:
            fault = fault._replace(kind="kill")
        elif fault.kind == "power failure" and not any_power_cut:
            fault = fault._replace(node=fragile, kind="power failure" if may_lose_power else "kill")
        bearable.append(fault)
    return bearable


def _single_faults(chance: Random, nodes: Sequence[int]) -> list[Fault]:
    kinds, weights = zip(*WEIGHTS.items(), strict=True)
    faults = []
    for _ in range(chance.randint(1, 7)):
        kind = chance.choices(kinds, weights)[0]
        node = chance.choice((*nodes, LEADER, FOLLOWER, CONTROLLER))
        if kind in PAIRED or len(nodes) == 1:
            node = chance.choice(nodes)
        other = chance.choice([each for each in nodes if each != node] or [node])
        at_s = chance.uniform(0.3, FAULTS_UNTIL_S)
        for_s = min(chance.choice((0.05, 0.3, 1.0, 2.5)) * chance.uniform(0.3, 1.3), FAULTS_UNTIL_S - at_s)
        faults.append(Fault(at_s, for_s, kind, node, other if kind in PAIRED else 0))
    return faults


def _starved_nodes(chance: Random, nodes: Sequence[int]) -> list[Fault]:
    """Some nodes get hardly any CPU time for a while, as in a container with a quota."""
    if chance.random() < 0.8:
        return []
    at_s = chance.uniform(0.5, 3.0)
    starved = chance.sample(nodes, chance.randint(1, len(nodes)))
    for_s = chance.uniform(0.5, 3.0)
    return [Fault(at_s + chance.uniform(0, 0.1), for_s, "starve", node) for node in starved]


def _lone_leader(chance: Random, faults: Sequence[Fault], session_s: float) -> list[Fault]:
    """One of two replicas leads alone, and is lost when the other one is back.

    No disk is lost meanwhile: it may be the only one with what such a leader has committed.
    """
    kept = [
        each._replace(kind="kill") if each.kind in ("power failure", "disk replaced") else each
        for each in faults
    ]
    at_s, alone_s = chance.uniform(1.0, 3.0), session_s + chance.uniform(0.5, 1.5)
    return [
        *kept,
        Fault(at_s, alone_s, "kill", FOLLOWER),
        Fault(at_s + alone_s - chance.uniform(0, 0.2), session_s + 1.0, "kill", LEADER),
    ]


def _rolled_back_store(chance: Random, faults: Sequence[Fault], session_s: float) -> list[Fault]:
    """After all other faults, the store is restored from an old snapshot; later the newest one is put back.

    Not together with others: a broker that lost its disk meanwhile would take the old state for the newest.
    """
    if chance.random() >= ROLLS_BACK:
        return []
    at_s = max((each.at_s + each.for_s for each in faults), default=0.0) + chance.uniform(2.5, 3.5)
    return [Fault(at_s, session_s + chance.uniform(5.0, 7.0), "store rolled back", 1)]


def _power_cut_of_all(chance: Random, nodes: Sequence[int]) -> list[Fault]:
    at_s = chance.uniform(1.0, FAULTS_UNTIL_S)
    return [Fault(at_s + chance.uniform(0, 0.02), 0.3, "power failure", node) for node in nodes]


# Storms: faults that hurt together more than each by itself.


def _late_follower(chance: Random, session_s: float) -> list[Fault]:
    """A follower falls out of sync, and rejoins just when the leader changes."""
    at_s, for_s = chance.uniform(0.5, 2.5), chance.uniform(0.8, 2.5)
    return [
        Fault(at_s, for_s, chance.choice(("isolate", "kill", "pause")), FOLLOWER),
        Fault(
            at_s + for_s + chance.uniform(-0.4, 0.3), chance.uniform(0.1, 1.5), chance.choice(BROKEN), LEADER
        ),
    ]


def _flapping_leader(chance: Random, session_s: float) -> list[Fault]:
    """One leader after the other is lost."""
    at_s = chance.uniform(0.5, 2.0)
    faults = []
    for _ in range(chance.randint(2, 4)):
        faults.append(Fault(at_s, chance.uniform(0.1, 1.4) * session_s, chance.choice(BROKEN), LEADER))
        at_s += chance.uniform(0.2, 1.2)
    return faults


def _blind_follower(chance: Random, session_s: float) -> list[Fault]:
    """A follower does not hear that one leader after the other is lost."""
    kind = chance.choice(("cut from store", "slow store", "cut from store"))
    return [
        Fault(chance.uniform(0.4, 2.0), chance.uniform(1.0, 3.0), kind, FOLLOWER),
        *_flapping_leader(chance, session_s),
    ]


def _lost_controller(chance: Random, session_s: float) -> list[Fault]:
    """The controller and a leader are lost at about the same time."""
    at_s = chance.uniform(0.5, 4.0)
    return [
        Fault(at_s + chance.uniform(0, 0.1), chance.uniform(0.2, 2.0), chance.choice(BROKEN), node)
        for node in (CONTROLLER, LEADER)
    ]


def _rolling_restart(chance: Random, session_s: float) -> list[Fault]:
    """Every node is stopped and started, one after the other."""
    at_s, step_s = chance.uniform(0.5, 2.0), chance.uniform(0.2, 1.2)
    kind = chance.choice(("restart", "restart", "kill"))
    return [Fault(at_s + step_s * number, 0.1, kind, node) for number, node in enumerate((1, 2, 3))]


def _returning_leader(chance: Random, session_s: float) -> list[Fault]:
    """A leader is deposed, cuts off what only a blind follower got of it, and leads again unnoticed."""
    old, new, blind = chance.sample((1, 2, 3), 3)
    cut_s = session_s + chance.uniform(0.3, 0.6)
    depose_s = cut_s + chance.uniform(0.15, 0.3)
    again_s = depose_s + session_s + chance.uniform(0.5, 0.9)
    return [
        Fault(0.3, again_s + session_s + 0.5, "cut from store", blind),
        Fault(cut_s, 0.28, "cut", old, new),
        Fault(depose_s, session_s * 1.2, chance.choice(("pause", "cut from store")), old),
        Fault(again_s, session_s * 1.2, chance.choice(("pause", "kill")), new),
    ]


def _full_disks(chance: Random, session_s: float) -> list[Fault]:
    """Disks run full, perhaps all of them, and a broker is lost meanwhile."""
    at_s = chance.uniform(0.4, 2.5)
    faults = [
        Fault(
            at_s + chance.uniform(0, 1.5),
            chance.uniform(0.3, 3.0),
            "full disk",
            chance.choice((LEADER, LEADER, FOLLOWER)),
        )
        for _ in range(chance.randint(1, 3))
    ]
    who = chance.choice((LEADER, FOLLOWER, CONTROLLER))
    lost_s = chance.uniform(0.2, 1.4) * session_s
    return [*faults, Fault(at_s + chance.uniform(0.1, 2.0), lost_s, chance.choice(BROKEN), who)]


def _lost_disk(chance: Random, session_s: float) -> list[Fault]:
    """The followers are killed, then the leader, which gets another disk; then all are started."""
    at_s, down_s = chance.uniform(1.0, 3.0), session_s + chance.uniform(0.1, 1.0)
    until_s = at_s + down_s + chance.uniform(0.1, 0.8)
    return [
        *(Fault(at_s, until_s - at_s, "kill", node) for node in (1, 2, 3)),
        Fault(at_s + 0.01, until_s - at_s + chance.uniform(-0.2, 0.5), "disk replaced", LEADER),
    ]


def _restart_with_store(chance: Random, session_s: float) -> list[Fault]:
    """All nodes are killed and started, and before they are recovered the store ends their sessions."""
    at_s, for_s = chance.uniform(1.0, 3.5), chance.uniform(0.4, 1.0)
    return [
        *(Fault(at_s, for_s, "slow recovery", node) for node in (1, 2, 3)),
        Fault(at_s + for_s - 0.25, chance.uniform(0.5, 1.5), "slow store", LEADER),
    ]


def _lost_coordinators(chance: Random) -> list[Fault]:
    """One coordinator of transactions after the other is lost."""
    at_s = chance.uniform(1.0, 2.5)
    faults = []
    for _ in range(chance.randint(1, 4)):
        faults.append(Fault(at_s, chance.uniform(0.05, 1.5), chance.choice(BROKEN), COORDINATOR))
        at_s += chance.uniform(0.2, 1.5)
    return faults


def _partly_delivered(chance: Random, session_s: float = 0.0) -> list[Fault]:
    """What a leader says last reaches one follower only, and the other one may be the next leader."""
    faults = []
    for at_s in (1.2, 3.0, 4.8):
        who, follower = chance.choice((LEADER, COORDINATOR, COORDINATOR)), chance.choice((1, 2, 3))
        dies_s = at_s + chance.uniform(0.1, 0.35)  # before the follower falls out of sync
        faults.append(Fault(at_s, dies_s - at_s + chance.choice((0.5, 1.5, 4.0)), "cut", who, follower))
        faults.append(Fault(dies_s, chance.uniform(0.3, 1.2), chance.choice(BROKEN[:3]), who))
    return faults


def _late_requests(chance: Random) -> list[Fault]:
    """Clients give up on a broker, and what they asked of it arrives when they have gone on without it."""
    at_s = chance.uniform(0.5, 3.0)
    who = chance.choice((LEADER, COORDINATOR))
    return [Fault(at_s, chance.uniform(1.4, 3.5), "cut from clients", who)]


STORMS: tuple[Callable[[Random, float], list[Fault]], ...] = (
    _late_follower,
    _late_follower,
    _flapping_leader,
    _blind_follower,
    _blind_follower,
    _lost_controller,
    _rolling_restart,
    _returning_leader,
    _full_disks,
    _lost_disk,
    _lost_disk,
    _restart_with_store,
    _partly_delivered,
    _partly_delivered,
)
