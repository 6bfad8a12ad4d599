"""Partitions of the simulation: a real log on a simulated disk, committed a little later, and often hurt.

What is below the high watermark is on all replicas, and on the disk. A new leader may lack what is above;
a crash may lose or tear it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.transaction_network import Action, Answer, Network
from tests.unit.log.bench import ROOT, LogBench, stored_bytes
from tests.unit.log.transaction_bench import committed_values

from ottla.common.ids import TopicPartition
from ottla.log.log import Log
from ottla.log.log_types import AppendResult, LogRead
from ottla.protocol.errors import KafkaError, NotLeaderOrFollower
from ottla.protocol.records.batch import BatchHeader, check_batch, iter_batches
from ottla.protocol.records.control import Marker
from ottla.protocol.records.records import Record, encode_batch

SEGMENT_BYTES = 2_000
Verify = Callable[[str, tuple[int, int], TopicPartition, bool, Answer], None]


class SimPartition:
    """One partition and its only leader; a new leader is the same log, with another epoch."""

    def __init__(self, place: TopicPartition, network: Network) -> None:
        self.topic_partition = place
        self.network = network
        self.bench = LogBench(segment_bytes=SEGMENT_BYTES, index_interval_bytes=300)
        self.bench.disk.sync_all(ROOT)
        self.leader_epoch = 0
        self.high_watermark = 0
        self.epoch_start_offset = 0
        self._waiting: list[tuple[int, Action, Action]] = []

    @property
    def log(self) -> Log:
        """The log, which a crash replaces."""
        return self.bench.log

    @property
    def log_start_offset(self) -> int:
        """Where the log begins."""
        return self.log.log_start_offset

    @property
    def is_busy(self) -> bool:
        """Whether something in the log is not committed yet."""
        return self.high_watermark < self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int | None:
        """How far committed records can be read; None while the new leader cannot tell."""
        if self.high_watermark < self.epoch_start_offset:
            return None
        first = self.log.producers.transactions.first_unstable_offset(self.high_watermark)
        return self.high_watermark if first is None else min(first, self.high_watermark)

    # Appending

    def check_in_sync(self) -> None:
        """Do nothing: there are always enough replicas here."""

    def append(self, batch: memoryview, header: BatchHeader, is_validated: bool = False) -> AppendResult:
        """Append a batch."""
        self.bench.clock.now_ms = self.network.now_ms
        return self.log.append(batch, header, self.leader_epoch, self.network.now_ms, is_validated)

    def append_marker(self, marker: Marker) -> AppendResult:
        """Append the end of a transaction."""
        self.bench.clock.now_ms = self.network.now_ms
        return self.log.append_marker(marker, self.leader_epoch, self.network.now_ms)

    def when_committed(self, offset: int, done: Action, lost: Action) -> None:
        """Do something once all below an offset is committed, or once it may be lost."""
        if offset <= self.high_watermark:
            done()
            return
        self._waiting.append((offset, done, lost))
        epoch = self.leader_epoch
        slowest_ms = 300 if self.network.happens(self.network.faults * 0.2) else 40
        delay_ms = self.network.random.randint(0, slowest_ms)
        self.network.after(delay_ms, lambda: self._replicated(offset, epoch))

    def _replicated(self, offset: int, epoch: int) -> None:
        if epoch == self.leader_epoch and offset > self.high_watermark:
            self._commit(offset)

    def _commit(self, offset: int) -> None:
        self.bench.flush()
        self.high_watermark = offset
        ready = [each for each in self._waiting if each[0] <= offset]
        self._waiting = [each for each in self._waiting if each[0] > offset]
        for _, done, _ in ready:
            done()

    # Reading

    def read(self, offset: int, max_bytes: int, end_offset: int, at_least_one: bool) -> LogRead:
        """Read as a partition does."""
        return self.log.read(offset, max_bytes, end_offset, at_least_one=at_least_one)

    def read_committed(self, offset: int) -> tuple[dict[int, str], int]:
        """Return the committed records of one fetch by offset, and the offset to continue from."""
        end = self.last_stable_offset
        if end is None or offset >= end:
            return {}, offset
        found = self.log.read(offset, 700, end)
        aborted = self.log.aborted_transactions(offset, found.next_offset)
        batches = [(header, bytes(batch)) for header, batch in iter_batches(stored_bytes(found.records))]
        values = committed_values(batches, aborted)
        return {at: value for at, value in values.items() if at >= offset}, found.next_offset

    # Faults

    def fail_over(self) -> None:
        """Let a new leader take over, which may lack what was not committed."""
        committed, end = self.high_watermark, self.log.log_end_offset
        self.log.truncate_to(
            self.network.random.choice((committed, self.network.random.randint(committed, end)))
        )
        self._lead_anew()

    def crash(self) -> None:
        """Kill the broker, or cut its power, and start it again."""
        if self.network.happens(0.5):
            self.bench.kill()
        else:
            self.bench.cut_power(self.network.random.randrange(1 << 30))
        assert self.log.log_end_offset >= self.high_watermark, "what was committed is gone"
        self._lead_anew()

    def _lead_anew(self) -> None:
        self.leader_epoch += 1
        self.epoch_start_offset = self.log.log_end_offset
        lost, self._waiting = self._waiting, []
        for _, _, fail in lost:
            fail()
        epoch = self.leader_epoch
        end = self.log.log_end_offset
        self.network.after(self.network.random.randint(0, 100), lambda: self._replicated(end, epoch))


class DataPartition(SimPartition):
    """A partition that clients produce to, verified as `api/support/transaction_verification.py` does."""

    def __init__(self, place: TopicPartition, network: Network, verify: Verify) -> None:
        super().__init__(place, network)
        self._verify = verify

    def produce(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        sequence: int,
        values: tuple[str, ...],
        adds: bool,
        answer: Answer,
    ) -> None:
        """Append a batch to a transaction; the answer is None or an error."""
        log = self.log
        if log.producers.has_open_transaction(*producer):
            self._append(producer, sequence, values, answer)
            return
        begun = log.verifications.begin(*producer, sequence, has_epoch_per_transaction=adds)

        def verified(refusal: KafkaError | None) -> None:
            if refusal is not None:
                answer(refusal)
            elif self.log is not log:
                answer(NotLeaderOrFollower("the leader has crashed meanwhile"))
            else:
                begun.confirm()
                self._append(producer, sequence, values, answer)

        self._verify(transactional_id, producer, self.topic_partition, adds, verified)

    def write_marker(self, marker: Marker, answer: Answer) -> None:
        """End a transaction; the answer is None or an error."""
        try:
            appended = self.append_marker(marker)
        except KafkaError as error:
            answer(error)
            return
        self._answer_when_committed(appended, answer)

    def _append(
        self, producer: tuple[int, int], sequence: int, values: tuple[str, ...], answer: Answer
    ) -> None:
        records = [Record(at, self.network.now_ms, b"key", each.encode()) for at, each in enumerate(values)]
        who: dict[str, Any] = {"producer_id": producer[0], "producer_epoch": producer[1]}
        batch = memoryview(encode_batch(records, base_sequence=sequence, transactional=True, **who))
        try:
            appended = self.append(batch, check_batch(batch))
        except KafkaError as error:
            answer(error)
            return
        self._answer_when_committed(appended, answer)

    def _answer_when_committed(self, appended: AppendResult, answer: Answer) -> None:
        lost = NotLeaderOrFollower("it is not known whether it was committed")
        self.when_committed(appended.last_offset + 1, lambda: answer(None), lambda: answer(lost))
