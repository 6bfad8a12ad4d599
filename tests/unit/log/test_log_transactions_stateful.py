"""A log with transactions against the plain truth: what its batches say, read from front to back.

Whatever happens to the log, a consumer of committed records, which knows nothing but the answers to its
fetches, reads exactly the records of committed transactions below the last stable offset.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.log.bench import ROOT, LogBench, append, make_batch, read_batches
from tests.unit.log.transaction_bench import (
    TransactionalProducer,
    index_entries,
    read_committed,
    stable_offset,
    truth,
)

PRODUCERS = st.integers(0, 3)


class TransactionMachine(RuleBasedStateMachine):
    """Write, commit, abort, cut, restart, crash."""

    @initialize(segment_bytes=st.sampled_from([300, 700, 1 << 20]), version=st.sampled_from([0, 2]))
    def start(self, segment_bytes: int, version: int) -> None:
        self.bench = LogBench(segment_bytes=segment_bytes)
        self.bench.disk.sync_all(ROOT)
        self.version = version
        self.count = 0
        self.producers = self._new_producers()

    def _new_producers(self) -> list[TransactionalProducer]:
        self.first_id = getattr(self, "first_id", -10) + 10
        return [TransactionalProducer(self.first_id + each) for each in range(4)]

    @rule(who=PRODUCERS, records=st.integers(1, 3))
    def write(self, who: int, records: int) -> None:
        self.count += 1
        self.producers[who].write(self.bench.log, *(f"v{self.count}-{each}" for each in range(records)))

    @rule()
    def write_plainly(self) -> None:
        self.count += 1
        append(self.bench.log, make_batch(f"plain-{self.count}"))

    @rule(who=PRODUCERS, commit=st.booleans())
    def end(self, who: int, commit: bool) -> None:
        self.producers[who].end(self.bench.log, commit=commit, version=self.version)

    @rule()
    def roll(self) -> None:
        self.bench.log.roll()

    @rule()
    def flush(self) -> None:
        self.bench.flush()

    @rule()
    def restart(self) -> None:
        self.bench.restart()

    @rule()
    def kill(self) -> None:
        self.bench.kill()

    @rule(seed=st.integers(0, 1000))
    def cut_power(self, seed: int) -> None:
        self.bench.cut_power(seed)
        self.producers = self._new_producers()  # the others do not know how much of theirs is left

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        log = self.bench.log
        log.truncate_to(log.log_start_offset + int(share * (log.log_end_offset - log.log_start_offset)))
        self.producers = self._new_producers()

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        log = self.bench.log
        log.delete_records_before(
            log.log_start_offset + int(share * (stable_offset(log) - log.log_start_offset))
        )

    @rule(count=st.integers(1, 2))
    def remove_segments(self, count: int) -> None:
        log = self.bench.log
        log.remove_segments(log.sealed[:count], "old")

    @rule(max_bytes=st.integers(1, 500), share=st.floats(0, 1))
    def read(self, max_bytes: int, share: float) -> None:
        log = self.bench.log
        offset = log.log_start_offset + int(share * (stable_offset(log) - log.log_start_offset))
        committed, _ = truth(read_batches(log))
        expected = {at: value for at, value in committed.items() if offset <= at < stable_offset(log)}
        assert read_committed(log, offset, max_bytes) == expected

    @invariant()
    def a_consumer_reads_what_is_committed(self) -> None:
        log = self.bench.log
        committed, first_open = truth(read_batches(log))
        stable = stable_offset(log)
        assert stable <= (log.log_end_offset if first_open is None else max(first_open, log.log_start_offset))
        expected = {at: value for at, value in committed.items() if log.log_start_offset <= at < stable}
        assert read_committed(log) == expected

    @invariant()
    def the_index_is_what_the_log_gives(self) -> None:
        log = self.bench.log
        before = index_entries(log)
        if log.log_start_offset == log.segments[0].base_offset == 0:
            assert index_entries(self.bench.kill()) == before


TestTransactionsInALog = TransactionMachine.TestCase
TestTransactionsInALog.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
