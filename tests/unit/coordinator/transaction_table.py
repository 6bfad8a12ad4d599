"""A transaction machine and its log at a table, without a runtime: events go in, answers come out at once.

`TransactionTable` takes every step the way the runtime does. Markers that a step sends are kept until
`write_markers` says that all partitions have them; time moves by hand. Every record goes through its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.coordinator.effects import SetTimer, Step, TimerKey
from ottla.coordinator.transaction.machine import TransactionMachine
from ottla.coordinator.transaction.record_codec import decode_record, encode_record
from ottla.coordinator.transaction.requests import (
    EndRequest,
    Initiated,
    InitRequest,
    NewProducerIdNeeded,
    WriteMarkers,
)
from ottla.coordinator.transaction.transaction import Producer, Record, Transaction
from ottla.protocol.errors import KafkaError

START_MS = 1_000_000
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
ID = "t"


class TransactionTable:
    """One machine, in virtual time; `ID` is the id that is meant where none is given."""

    def __init__(self, **settings: int | str) -> None:
        self.config = BrokerConfig({name.replace("_", "."): str(value) for name, value in settings.items()})
        self.machine = TransactionMachine(self.config)
        self.now_ms = START_MS
        self.log: list[Record] = []
        self.timers: dict[TimerKey, int] = {}
        self.sent: list[WriteMarkers] = []
        self.next_id = 1000
        self.take(self.machine.loaded(self.now_ms))

    def __getitem__(self, transactional_id: str) -> Transaction:
        return self.machine.transactions[transactional_id]

    @property
    def txn(self) -> Transaction:
        return self[ID]

    # Requests

    def init(self, key: str = ID, timeout_ms: int = 60_000, **wanted: Any) -> Initiated:
        answer = self._ask(TransactionMachine.init_producer_id, InitRequest(key, timeout_ms, **wanted))
        assert isinstance(answer, Initiated)
        return answer

    def producer(self, key: str = ID, **wanted: Any) -> Producer:
        return self.init(key, **wanted).producer

    def add(self, producer: Producer, *partitions: TopicPartition, key: str = ID) -> None:
        self._ask(TransactionMachine.add_partitions, key, producer, frozenset(partitions or (A,)))

    def verify(self, producer: Producer, *partitions: TopicPartition, key: str = ID) -> list[str | None]:
        verdicts = self._ask(TransactionMachine.verify, key, producer, partitions)
        return [None if each is None else type(each).__name__ for each in verdicts.values()]

    def end(
        self, producer: Producer, commit: bool = True, v: int = 5, key: str = ID, by: str = ""
    ) -> Producer:
        answer = self._ask(TransactionMachine.end, EndRequest(key, producer, commit, v >= 5, by))
        assert isinstance(answer, Producer)
        return answer

    def prepare(self, producer: Producer, key: str = ID, principal: str = "") -> None:
        self._ask(TransactionMachine.prepare, key, producer, principal)

    def begin(self, producer: Producer | None = None, **wanted: Any) -> Producer:
        """Return a producer with an ongoing transaction."""
        producer = producer or self.producer(**wanted)
        self.add(producer, key=wanted.get("key", ID))
        return producer

    # What happens besides

    def write_markers(self) -> list[WriteMarkers]:
        """Let all markers that were sent be written."""
        written, self.sent = self.sent, []
        for each in written:
            self.take(self.machine.complete(self.now_ms, each))
        return written

    def pass_time(self, time_ms: int) -> None:
        """Move on, and let those timers fire, late, that have run out by then."""
        self.now_ms += time_ms
        while due := [key for key, at_ms in self.timers.items() if at_ms <= self.now_ms]:
            for key in due:
                del self.timers[key]
                self.take(self.machine.on_timer(self.now_ms, key))

    def restarted(self) -> TransactionMachine:
        """Return a machine that has been loaded from the log."""
        other = TransactionMachine(self.config)
        for each in self.log:
            other.replay(each)
        return other

    def fail_over(self) -> None:
        """Go on with what the log says, in another coordinator."""
        self.machine = self.restarted()
        self.timers.clear()
        self.sent.clear()
        self.take(self.machine.loaded(self.now_ms))

    def take(self, step: Step) -> None:
        for record in step.records:
            assert isinstance(record, Record)
            written = decode_record(*encode_record(record))
            assert written == record
            self.log.append(written)
            self.machine.replay(record)
        assert not step.changes
        for timer in step.timers:
            assert isinstance(timer, SetTimer)
            self.timers[timer.key] = timer.at_ms
        self.sent.extend(each for each in step.sends if isinstance(each, WriteMarkers))

    def _ask(self, event: Callable[..., Step], *args: Any) -> Any:
        try:
            step = event(self.machine, self.now_ms, 1, *args)
        except NewProducerIdNeeded:
            self.next_id += 1
            step = event(self.machine, self.now_ms, 1, *args, new_id=self.next_id)
        self.take(step)
        (reply,) = step.replies
        if isinstance(reply.response, KafkaError):
            raise reply.response
        return reply.response
