"""Simulated transactional clients.

Each runs one transaction after the other, to several partitions, some with the offset of a group; most are
committed. Clients die in the middle, two of them use one transactional id, and some abandon a transaction.

They do what Kafka's clients do, and one thing more: a classic client that misses an answer takes a new epoch
before its next transaction, because the request may still come (docs/transactions.md).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from kio.schema.errors import ErrorCode

from ottla.common.ids import TopicPartition
from ottla.coordinator.transaction.transaction import Producer
from ottla.testing.simulation.client import SimClient
from ottla.testing.simulation.transactions.attempts import Attempt, TransactionHistory
from ottla.testing.simulation.transactions.calls import UNANSWERED, TransactionCalls

THINK_S = (0.0, 0.15)
FENCED_PAUSE_S = (0.3, 2.5)
TIMEOUT_S = (0.5, 4.0)
"""For a transaction up to its end; to end it takes as long as it takes, within END_WITHIN_S."""
END_WITHIN_S = 25.0
DIES, DIES_ENDING = 0.06, 0.15
"""How often a client dies in the middle of a transaction, and after an attempt to end it that failed."""
COMMITS, WITH_OFFSET, ABANDONS = 0.75, 0.5, 0.4

FENCED = frozenset(
    {ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping}
)
ABORTABLE = frozenset({ErrorCode.invalid_txn_state, ErrorCode.transaction_abortable})


class Fenced(Exception):
    """Another producer has the transactional id, or the coordinator has aborted the transaction."""


class MustAbort(Exception):
    """The transaction cannot be committed any more."""


class SimTransactional:
    """One client, until it is stopped; `problems` are responses that no client may ever get."""

    is_two_phase = False

    def __init__(
        self,
        calls: TransactionCalls,
        ledger: TransactionHistory,
        transactional_id: str,
        places: Sequence[TopicPartition],
        timeout_ms: int,
    ) -> None:
        self.transactional_id = transactional_id
        self.problems: list[str] = []
        self.errors: Counter[ErrorCode] = Counter()
        """Errors from which it recovered."""
        self.is_stopping = False
        self.calls = calls
        self.client: SimClient = calls.client
        self.ledger = ledger
        self.timeout_ms = timeout_ms
        self.producer: Producer | None = None
        self._places = places
        self._sequences: dict[TopicPartition, int] = {}
        self._is_in_doubt = False

    async def run(self) -> None:
        """Do one transaction after the other, until `is_stopping`."""
        chance = self.client.chance
        while not self.is_stopping:
            await asyncio.sleep(chance.uniform(*THINK_S))
            if self.producer is None or (self._is_in_doubt and self.calls.is_classic):
                await self.take_id(self.producer)
                continue
            await self._transaction(self.ledger.begin(self.transactional_id))
        if chance.random() < ABANDONS:
            await self._abandon()

    async def take_id(self, expected: Producer | None = None) -> None:
        """Become the producer of the transactional id, as a new one or with the next epoch."""
        while True:
            code, producer, _ = await self.calls.init(self.timeout_ms, expected, two_phase=self.is_two_phase)
            if code is ErrorCode.none:
                self.become(producer)
                self._is_in_doubt = False
                return
            if code in FENCED:
                await self._was_fenced()
                return
            if self.is_stopping and expected is None:
                return
            self.note(code)
            await self.client.pause()

    def become(self, producer: Producer) -> None:
        """Continue in another epoch; its batches are numbered from 0."""
        if producer != self.producer:
            self._sequences.clear()
        self.producer = producer

    async def _was_fenced(self) -> None:
        self.producer = None
        if not self.is_stopping:
            await asyncio.sleep(self.client.chance.uniform(*FENCED_PAUSE_S))

    async def _transaction(self, attempt: Attempt) -> None:
        chance = self.client.chance
        try:
            try:
                await self._fill(attempt)
                if chance.random() < DIES:
                    await self._die()
                else:
                    await self.decide(attempt)
            except MustAbort:
                await self._end(attempt, commit=False)
        except Fenced:
            await self._was_fenced()

    async def decide(self, attempt: Attempt) -> None:
        """End a transaction that could be committed."""
        await self._end(attempt, commit=self.client.chance.random() < COMMITS)

    async def _abandon(self) -> None:
        """Begin a transaction, and leave it to its coordinator."""
        if self.producer is not None and not (self.calls.is_classic and self._is_in_doubt):
            try:
                await self._fill(self.ledger.begin(self.transactional_id))
            except (MustAbort, Fenced):
                pass

    async def _die(self) -> None:
        """End without a word; what starts again knows nothing."""
        self.producer = None
        await asyncio.sleep(self.client.chance.choice((0.0, self.timeout_ms / 1000)))

    # What is in a transaction

    async def _fill(self, attempt: Attempt) -> None:
        client = self.client
        chance = client.chance
        deadline_s = client.loop.now + chance.uniform(*TIMEOUT_S)
        places = [place for place in self._places if chance.random() < 0.6] or [chance.choice(self._places)]
        producer = self._held()
        if self.calls.is_classic:
            await self._until_done(lambda: self.calls.add_partitions(producer, places), deadline_s)
        writing = [self._write(attempt, place, deadline_s) for place in places]
        results = await asyncio.gather(*writing, return_exceptions=True)
        for each in sorted(filter(None, results), key=lambda error: not isinstance(error, Fenced)):
            raise each
        if chance.random() < WITH_OFFSET:
            attempt.has_offset = True
            if self.calls.is_classic:
                await self._until_done(lambda: self.calls.add_offsets(producer), deadline_s)
            await self._until_done(lambda: self.calls.commit_offset(producer, attempt.number), deadline_s)

    async def _write(self, attempt: Attempt, place: TopicPartition, deadline_s: float) -> None:
        producer, chance = self._held(), self.client.chance
        for _ in range(chance.choice((1, 1, 2, 3))):
            values = attempt.new_values(place, chance.choice((1, 1, 2, 4)))
            sequence = self._sequences.get(place, 0)
            self._sequences[place] = sequence + len(values)

            def produce(values: list[bytes] = values, sequence: int = sequence) -> Awaitable[ErrorCode]:
                return self.calls.produce(producer, place, values, sequence)

            await self._until_done(produce, deadline_s)
            if chance.random() < 0.3:
                await asyncio.sleep(chance.uniform(*THINK_S))

    async def _until_done(self, call: Callable[[], Awaitable[ErrorCode]], deadline_s: float) -> None:
        """Send a request until it is answered; MustAbort or Fenced if it will never be done."""
        while True:
            code = await call()
            if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
                return
            self.note(code)
            if code in FENCED:
                raise Fenced
            if code in ABORTABLE:
                self._is_in_doubt = True
                raise MustAbort
            if self.client.loop.now >= deadline_s:
                self._is_in_doubt = True
                raise MustAbort
            await self.client.pause()

    def note(self, code: ErrorCode) -> None:
        """Count an answer that was an error."""
        self.errors[code] += 1
        if code is UNANSWERED:
            self._is_in_doubt = True
        else:
            self.calls.forget()

    # Its end

    async def _end(self, attempt: Attempt, *, commit: bool) -> None:
        """End a transaction, with retries; Fenced if another producer has ended it."""
        producer, is_first, repeats = self._held(), True, self.calls.repeats
        attempt.is_commit_asked = commit
        deadline_s = self.client.loop.now + END_WITHIN_S
        while self.client.loop.now < deadline_s:
            code, after = await self.calls.end(producer, commit=commit)
            if code is ErrorCode.none:
                attempt.is_commit_confirmed = commit
                self.become(after)
                return
            self.note(code)
            if code in FENCED or code in ABORTABLE:
                attempt.is_commit_refused = commit and is_first and self.calls.repeats == repeats
                if code in ABORTABLE and attempt.is_commit_refused:
                    self.problems.append(f"{attempt.transactional_id}: {code.name} for {attempt}")
                raise Fenced
            is_first = False
            if self.client.chance.random() < DIES_ENDING:
                await self._die()
                return
            await self.client.pause()
        raise Fenced  # the outcome is unknown

    def _held(self) -> Producer:
        assert self.producer is not None
        return self.producer


class SimTwoPhase(SimTransactional):
    """A client that prepares its transactions; some it finds again after a restart, to end them then."""

    is_two_phase = True
    prepared: Attempt | None = None
    """What waits for `finish`."""

    async def decide(self, attempt: Attempt) -> None:
        """Prepare, wait, maybe forget everything but the attempt itself, and end it."""
        chance, producer = self.client.chance, self._held()
        await self._until_done(lambda: self.calls.prepare(producer), self.client.loop.now + END_WITHIN_S)
        attempt.is_prepared = True
        self.prepared = attempt
        await asyncio.sleep(chance.uniform(0.0, 2.0) * self.timeout_ms / 1000)
        if self.is_stopping and chance.random() < 0.5:
            return  # `finish` is to end it
        await self.finish()

    async def _abandon(self) -> None:
        if self.prepared is None:
            await super()._abandon()

    async def finish(self) -> None:
        """End the transaction that is prepared."""
        attempt, chance = self.prepared, self.client.chance
        if attempt is None:
            return
        try:
            if chance.random() < 0.5:
                await self._find_again(attempt)
            await self._end(attempt, commit=chance.random() < COMMITS)
        except Fenced:
            if attempt.outcome.value != "unknown":
                self.problems.append(f"a prepared transaction was ended by another producer: {attempt}")
            self.producer = None
        self.prepared = None

    async def _find_again(self, attempt: Attempt) -> None:
        """Take over the prepared transaction, as a client does that has been restarted."""
        prepared_by = self._held()
        while True:
            code, producer, ongoing = await self.calls.init(self.timeout_ms, two_phase=True, keep=True)
            if code is ErrorCode.none:
                break
            self.note(code)
            await self.client.pause()
        if ongoing != prepared_by:
            self.problems.append(f"{ongoing} was found, {prepared_by} has prepared {attempt}")
        self.become(producer)
