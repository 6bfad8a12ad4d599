"""Returns fetched records, partition by partition, decoded when they are needed.

Partitions with fetched records wait in a queue. The first one returns the records of one response and goes
to the end of the queue, so that a busy partition does not starve the others. An error of a partition (a
corrupt batch, a deleted offset, a failing deserializer) is raised when all records before it are returned,
and the position stays there: `seek` past it to continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.fetching.partition_state import Chunk, PartitionState, PendingLookup
from ottla.client.consumer.fetching.read_committed import visible_batches
from ottla.client.consumer.fetching.record import Batch, ConsumerRecord, Decoder, DeserializationFailed
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import CorruptMessage, InvalidRecord, KafkaError, OffsetOutOfRange


class Collector:
    """Takes records out of the assigned partitions."""

    def __init__(
        self,
        assignment: Assignment,
        decoder: Decoder,
        *,
        check_crcs: bool,
        resets: bool,
        on_taken: Callable[[bool], None],
    ) -> None:
        self.is_held = True
        """Whether the next call has more to do than return records; then `drain` ends."""
        self._assignment = assignment
        self._decoder = decoder
        self._check_crcs = check_crcs
        self._resets = resets
        """Whether a position outside of the log is reset; else OffsetOutOfRange is raised."""
        self._on_taken = on_taken
        """Called when records were taken, with whether a position must be looked up now."""

    def take(
        self, max_records: int, only: frozenset[TopicPartition] | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records by partition, at most `max_records`."""
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        assignment = self._assignment
        with assignment.lock:
            turns = assignment.ready_count
            while max_records > 0 and turns > 0:
                state = assignment.first_ready()
                if state is None:
                    break
                if only is not None and state.partition not in only:
                    assignment.rotate_ready()
                    turns -= 1
                    continue
                if not self._make_ready(state, raises=not found):
                    assignment.rotate_ready()
                    turns -= 1
                    continue
                records = state.hand_out(max_records)
                max_records -= len(records)
                if state.partition in found:
                    found[state.partition] += records
                else:
                    found[state.partition] = records
                if not state.ready:
                    assignment.rotate_ready()
                    turns -= 1
        return found

    def take_one(self) -> ConsumerRecord | None:
        """Return the next record; None if there is none."""
        assignment = self._assignment
        if not assignment.ready_count:
            return None
        with assignment.lock:
            for _ in range(assignment.ready_count):
                state = assignment.first_ready()
                if state is None:
                    break
                if state.ready or self._make_ready(state, raises=True):
                    record = state.hand_out_one()
                    if not state.ready:
                        assignment.rotate_ready()
                    return record
                assignment.rotate_ready()
        return None

    def drain(self) -> Iterator[ConsumerRecord]:
        """Yield the records of one response, unless a call has more to do; from any thread."""
        assignment = self._assignment
        with assignment.lock:
            state = assignment.first_ready()
            if state is None or self.is_held or not (state.ready or self._make_ready(state, raises=True)):
                return
            ready = state.ready
        at, last = -1, len(ready) - 1
        while at < last:
            with assignment.lock:
                if state.ready is not ready or self.is_held or state.is_paused:
                    return
                at = state.ready_at
                if at < last:
                    state.ready_at = at + 1
                else:
                    state.finish_ready()
                    assignment.rotate_ready()
            yield ready[at]

    def take_batches(self, max_records: int) -> list[tuple[PartitionState, list[Batch], Chunk]]:
        """Return the next undecoded batches, about `max_records` records; the positions stay."""
        found: list[tuple[PartitionState, list[Batch], Chunk]] = []
        with self._assignment.lock:
            for each in self._assignment:
                if each.ready:
                    each.drop_fetched()  # the decoded rest is fetched again, as batches
            turns = self._assignment.ready_count
            while max_records > 0 and turns > 0:
                state = self._assignment.first_ready()
                if state is None:
                    break
                opened = self._open_next(state, raises=not found)
                if opened is None:
                    self._assignment.rotate_ready()
                    turns -= 1
                    continue
                batches, chunk = opened
                taken: list[Batch] = []
                while batches and max_records > 0:
                    max_records -= batches[0][0].record_count
                    taken.append(batches.pop(0))
                if batches:
                    chunk = self._give_back(state, batches, chunk)
                found.append((state, taken, chunk))
        return found

    @staticmethod
    def _give_back(state: PartitionState, rest: list[Batch], chunk: Chunk) -> Chunk:
        """Put back the rest of a chunk; return the part that was taken."""
        size = sum(len(batch) for _, batch in rest)
        state.fetched.appendleft(Chunk(rest, (), chunk.next_offset, chunk.next_epoch, size))
        state.fetched_bytes += size
        return chunk._replace(next_offset=rest[0][0].base_offset)

    def _make_ready(self, state: PartitionState, raises: bool) -> bool:
        """Decode until there are ready records; return whether there are."""
        while not state.ready:
            opened = self._open_next(state, raises)
            if opened is None:
                return False
            batches, chunk = opened
            records, error = self._decode(state, batches)
            if error is None:
                state.set_ready(records, chunk)
            else:
                good_to, epoch = state.position, state.epoch
                if records:
                    good_to, epoch = records[-1].offset + 1, records[-1].leader_epoch
                state.set_ready(records, chunk._replace(next_offset=good_to, next_epoch=epoch))
                state.fetched.appendleft(error)
        return True

    def _open_next(self, state: PartitionState, raises: bool) -> tuple[list[Batch], Chunk] | None:
        """Return the visible batches of the next chunk; None if there is none, or an error is next.

        With `raises` the error is raised; else it stays queued.
        """
        if not state.fetched:
            return None
        if isinstance(state.fetched[0], Exception):
            if raises:
                self._raise(state)
            return None
        chunk = state.pop()
        assert isinstance(chunk, Chunk)
        self._on_taken(False)
        batches: list[Batch] = []
        seen = visible_batches(
            state.partition, chunk.batches, state.position, chunk.aborted, check_crcs=self._check_crcs
        )
        try:
            batches.extend(seen)
        except CorruptMessage as error:
            state.fetched.appendleft(error)
            if not batches:
                return self._open_next(state, raises)
            chunk = chunk._replace(next_offset=batches[-1][0].next_offset)
        return batches, chunk

    def _raise(self, state: PartitionState) -> None:
        error = state.fetched[0]
        assert isinstance(error, Exception)
        state.drop_fetched()
        self._on_taken(True)
        if isinstance(error, OffsetOutOfRange) and self._resets:
            state.require(PendingLookup.RESET)
            return
        raise error

    def _decode(
        self, state: PartitionState, batches: list[Batch]
    ) -> tuple[list[ConsumerRecord], Exception | None]:
        """Return the records of batches; if one is invalid, those before it, and the error."""
        try:
            return self._decoder.decode(state.partition, batches, state.position), None
        except Exception:
            return self._decode_carefully(state, batches)

    def _decode_carefully(
        self, state: PartitionState, batches: list[Batch]
    ) -> tuple[list[ConsumerRecord], Exception | None]:
        records: list[ConsumerRecord] = []
        offset = state.position
        try:
            for header, batch in batches:
                offset = max(header.base_offset, state.position)
                for record in self._decoder.one_by_one(state.partition, (header, batch), state.position):
                    records.append(record)
                    offset = record.offset + 1
        except (InvalidRecord, CorruptMessage) as error:
            return records, CorruptMessage(f"{state.partition} at offset {offset}: {error}")
        except (KafkaError, DeserializationFailed) as error:
            return records, error
        return records, None
