"""Whatever is asked of a transaction machine in whatever order: its state is that of its log."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.coordinator.transaction_table import A, B, TransactionTable

from ottla.common.ids import TopicPartition
from ottla.coordinator.transaction.transaction import LAST_EPOCH, Producer, Record, State
from ottla.protocol.errors import KafkaError

keys = st.sampled_from(["t", "u"])
sets = st.sampled_from([(A,), (B,), (A, B)])
versions = st.sampled_from([4, 5])
LOOKS_EVERY_MS = 10_000
"""How often a coordinator looks for transactions that have timed out, from when it has loaded them."""


class Transactions(RuleBasedStateMachine):
    """Producers of two transactional ids, living and dead ones, at random."""

    producers = Bundle("producers")

    @initialize(near_the_end=st.booleans())
    def start(self, near_the_end: bool) -> None:
        self.table = TransactionTable()
        self.failed_over_ms = self.table.now_ms
        self.decided: dict[Producer, bool] = {}
        for key in ("t", "u"):
            first = self.table.producer(key)
            if near_the_end:
                late = Producer(first.producer_id, LAST_EPOCH - 3)
                record = Record(key, self.table[key].changed(self.table.now_ms, producer=late))
                self.table.log.append(record)
                self.table.machine.replay(record)

    @rule(target=producers, key=keys, two_phase=st.booleans(), keeps=st.booleans())
    def init(self, key: str, two_phase: bool, keeps: bool) -> tuple[str, Producer]:
        try:
            return key, self.table.producer(
                key, timeout_ms=20_000, is_two_phase=two_phase, keeps_prepared=keeps
            )
        except KafkaError:
            return key, Producer(self.table[key].producer.producer_id, 0)

    @rule(target=producers, producer=producers)
    def run_held(self, producer: tuple[str, Producer]) -> tuple[str, Producer]:
        key, mine = producer
        try:
            return key, self.table.producer(key, timeout_ms=20_000, expected=mine)
        except KafkaError:
            return producer

    @rule(producer=producers, partitions=sets)
    def add(self, producer: tuple[str, Producer], partitions: tuple[TopicPartition, ...]) -> None:
        key, mine = producer
        try:
            self.table.add(mine, *partitions, key=key)
        except KafkaError:
            return
        assert self.table[key].holder == mine
        assert not self.table[key].is_prepared

    @rule(target=producers, producer=producers, commit=st.booleans(), v=versions)
    def end(self, producer: tuple[str, Producer], commit: bool, v: int) -> tuple[str, Producer]:
        key, mine = producer
        before = self.table[key]
        try:
            after = self.table.end(mine, commit, v, key=key)
        except KafkaError:
            assert self.table[key] == before
            return producer
        if before.state == State.ONGOING:
            assert before.holder == mine
        return key, after

    @rule(producer=producers)
    def prepare(self, producer: tuple[str, Producer]) -> None:
        key, mine = producer
        try:
            self.table.prepare(mine, key)
        except KafkaError:
            return
        assert self.table[key].is_prepared

    @rule()
    def write_markers(self) -> None:
        for each in self.table.write_markers():
            # All markers of one producer in one epoch of version 2 say the same.
            if each.version == 2:
                assert self.decided.setdefault(each.producer, each.is_commit) == each.is_commit

    @rule(time_ms=st.integers(1, 60_000))
    def wait(self, time_ms: int) -> None:
        self.table.pass_time(time_ms)
        if self.table.now_ms < self.failed_over_ms + LOOKS_EVERY_MS:
            return  # the new coordinator has not looked yet
        for each in self.table.machine.transactions.values():
            assert not each.has_timed_out(self.table.now_ms - LOOKS_EVERY_MS)

    @rule()
    def fail_over(self) -> None:
        self.table.fail_over()
        self.failed_over_ms = self.table.now_ms

    @invariant()
    def the_state_is_that_of_the_log(self) -> None:
        loaded = self.table.restarted()
        assert loaded.transactions == self.table.machine.transactions
        assert loaded.open == self.table.machine.open

    @invariant()
    def epochs_only_go_up(self) -> None:
        seen: dict[tuple[str, int], int] = {}
        for key, value in self.table.log:
            assert value is not None
            for each in (value.producer, value.next):
                assert each.epoch <= LAST_EPOCH
            known = seen.get((key, value.producer.producer_id), -1)
            assert value.producer.epoch >= known
            seen[key, value.producer.producer_id] = value.producer.epoch

    @invariant()
    def markers_are_sent_for_all_that_end_and_only_those(self) -> None:
        ending = {each for each, txn in self.table.machine.open.items() if txn.state.is_ending}
        assert {each.transactional_id for each in self.table.sent} == ending

    @invariant()
    def a_holder_can_always_be_fenced(self) -> None:
        for each in self.table.machine.open.values():
            if each.state == State.ONGOING:
                assert each.holder.epoch < LAST_EPOCH
                assert each.producer.epoch < LAST_EPOCH


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
