"""Coordinators of the simulation: a pure machine on a partition, as `coordinator/runtime.py` runs it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from tests.simulation.transaction_network import Answer
from tests.simulation.transaction_partition import SimPartition

from ottla.coordinator.effects import SetTimer, Step, TimerKey
from ottla.coordinator.partition_writer import PartitionWriter
from ottla.coordinator.runtime import as_coordinator_error
from ottla.coordinator.transaction.requests import NewProducerIdNeeded
from ottla.protocol.errors import CoordinatorLoadInProgress, KafkaError, NotCoordinator

NEW_IDS = count(1_000)


class Machine(Protocol):
    """What a shard needs of a machine."""

    def loaded(self, now_ms: int) -> Step: ...

    def on_timer(self, now_ms: int, key: TimerKey) -> Step: ...

    def replay(self, record: Any) -> None: ...


M = TypeVar("M", bound=Machine)


class SimShard(Generic[M]):
    """One machine, one partition. `send` gets responses once their records are committed."""

    sends_early = False
    """A bug to be found: a decision is acknowledged before it is committed."""

    def __init__(
        self,
        partition: SimPartition,
        make: Callable[[], M],
        send: Callable[[object], None] = lambda _: None,
        **codec: Any,
    ) -> None:
        self.partition = partition
        self.network = partition.network
        self.machine = make()
        self.is_loading = False
        self._make = make
        self._send = send
        self._writer = PartitionWriter(partition, partition.bench.clock, **codec)  # type: ignore[arg-type]
        self._tokens = count(1)
        self._timers: dict[TimerKey, int] = {}
        self._end_offset = 0
        self._start()

    @property
    def epoch(self) -> int:
        """The epoch of this coordinator."""
        return self.partition.leader_epoch

    def call(self, event: Callable[..., Step], *args: Any, answer: Answer) -> None:
        """Run an event of the machine; the answer, or an error, comes once it is committed."""
        if self.is_loading:
            answer(CoordinatorLoadInProgress("one moment"))
            return
        token = next(self._tokens)
        try:
            try:
                step = event(self.machine, self.network.now_ms, token, *args)
            except NewProducerIdNeeded:
                step = event(self.machine, self.network.now_ms, token, *args, new_id=next(NEW_IDS))
            self._take(step)
        except KafkaError as error:
            answer(error)
            return
        (reply,) = [each for each in step.replies if each.token == token]
        self._when_committed(lambda: answer(reply.response), lambda: answer(NotCoordinator("lost")))
        self._send_all(step)

    def run_event(self, event: Callable[..., Step], *args: Any) -> None:
        """Run an event that no client waits for."""
        step = event(self.machine, self.network.now_ms, *args)
        self._take(step)
        self._send_all(step)

    def fail_over(self) -> None:
        """Let another coordinator take over: it loads what is in the log, which takes a while."""
        self._timers.clear()
        self.is_loading = True
        epoch = self.epoch
        self.network.after(self.network.random.randint(0, 200), lambda: self._load(epoch))

    def check(self) -> None:
        """See that the state is what the log makes of it."""
        if not self.is_loading:
            assert state_of(self._replayed()) == state_of(self.machine), "the state is not that of the log"

    def _load(self, epoch: int) -> None:
        if epoch == self.epoch:
            self.machine = self._replayed()
            self.is_loading = False
            self._end_offset = self.partition.log.log_end_offset
            self._start()

    def _replayed(self) -> M:
        machine = self._make()
        loading = self._writer.load(machine.replay)
        try:
            while True:
                loading.send(None)
        except StopIteration:
            return machine

    def _start(self) -> None:
        self.run_event(type(self.machine).loaded)

    def _take(self, step: Step) -> None:
        records = step.records
        while records:
            try:
                self._end_offset, done = self._writer.append(records)
            except KafkaError as error:
                raise as_coordinator_error(error) from error
            for record in records[:done]:
                self.machine.replay(record)
            records = records[done:]
        for timer in step.timers:
            if isinstance(timer, SetTimer):
                self._timers[timer.key] = timer.at_ms
                delay_ms = max(0, timer.at_ms - self.network.now_ms)
                self.network.after(delay_ms, lambda key=timer.key: self._fire(key))
            else:
                self._timers.pop(timer.key, None)

    def _send_all(self, step: Step) -> None:
        for each in step.sends:
            if self.sends_early:
                self._send(each)
            else:
                self._when_committed(lambda each=each: self._send(each), lambda: None)

    def _when_committed(self, done: Callable[[], None], lost: Callable[[], None]) -> None:
        epoch = self.epoch
        self.partition.when_committed(
            self._end_offset, lambda: done() if epoch == self.epoch else lost(), lost
        )

    def _fire(self, key: TimerKey) -> None:
        at_ms = self._timers.get(key)
        if at_ms is not None and at_ms <= self.network.now_ms and not self.is_loading:
            del self._timers[key]
            self.run_event(type(self.machine).on_timer, key)


def state_of(machine: Any) -> Any:
    """Return what a machine knows, to be compared."""
    if hasattr(machine, "transactions"):
        return machine.transactions, machine.open
    return {group: machine.offsets.of_group(group) for group in machine.groups}
