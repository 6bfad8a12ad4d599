"""Check a history against the logs after all faults are healed; violations have Jepsen's names where they
exist.

    lost-write             an acknowledged record is missing
    unseen                 a reader did not get an existing record
    inconsistent-offsets   two values were seen at one offset
    duplicate              a record of an idempotent producer exists twice
    reordered              a record of an idempotent producer comes before an earlier one
    old-offset             an acknowledged offset was in use before the record was sent
    phantom                a record that was never sent to the partition
    aborted-read           a record of a send that failed for certain
    poll-skip              a reader missed offsets
    nonmonotonic-poll      a reader stepped back
    backward-watermark     the high watermark decreased, under one leader, or below what was delivered
    backward-commit        a committed offset decreased within a generation, or is ahead of the log
    zombie-commit          a commit of a generation is confirmed that was sent when a newer one had committed
    lost-commit            a confirmed commit is missing: at the end, or when a member fetched it
    old-value              a key of a compacted topic has an older value than its newest

The logs are compared as they are: without compaction and transactions, offsets have no gaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.common.ids import TopicPartition
from ottla.testing.history import (
    Acked,
    CommitRead,
    Committed,
    Committing,
    Failed,
    History,
    Polled,
    Read,
    ReaderEvent,
    ReaderPositioned,
    ReaderStopped,
    Sent,
)

Logs = Mapping[TopicPartition, Sequence[Read]]
Commits = Mapping[tuple[str, TopicPartition], int]
MAX_PER_KIND = 20
"""The maximum number of reported violations of a kind."""


class Violation(NamedTuple):
    """A violated guarantee."""

    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


def check(
    history: History,
    logs: Logs,
    commits: Commits | None = None,
    steady: Collection[TopicPartition] = (),
) -> list[Violation]:
    """Return all violations; `logs` and `commits` are the final state.

    Partitions that had one leader all the time are `steady`: they keep what was acknowledged with acks=1.
    """
    facts = _Facts(history)
    found = [
        *_check_offsets(facts, logs),
        *_check_acks(facts, logs, steady),
        *_check_values(facts, logs),
        *_check_order(facts, logs),
        *_check_polls(facts, logs),
        *_check_commits(facts, logs, commits),
        *_check_commit_reads(history),
        *_check_generations(history),
    ]
    return _at_most(found)


def check_compacted(
    history: History, logs: Logs, replicas: Mapping[str, Logs], starts: Mapping[TopicPartition, int]
) -> list[Violation]:
    """Return all violations of compacted topics: `logs` is what a reader gets in the end.

    Values begin with their key, and `=` or, if they delete it, `-`. Of each key the newest record that anyone
    knows of is there, in each replica, or nothing if it is a tombstone, or below `starts`: it may be deleted.
    """
    facts = _Facts(history)
    found = [
        *_check_offsets(facts, logs),
        *_check_values(facts, logs),
        *_check_order(facts, logs),
        *(each for each in _check_polls(facts, logs) if each.name != "poll-skip"),
        *_check_keys(facts, logs, {"the reader": logs, **replicas}, starts),
    ]
    return _at_most(found)


def key_of(value: bytes) -> bytes:
    """Return the key of a record of a compacted topic."""
    return value.split(b"=")[0].split(b"-")[0]


def is_tombstone(value: bytes) -> bool:
    """Return whether a record of a compacted topic deletes its key."""
    return value[len(key_of(value)) :][:1] == b"-"


def _newest(records: Iterable[Read]) -> dict[bytes, Read]:
    newest: dict[bytes, Read] = {}
    for offset, value in records:
        key = key_of(value)
        newest[key] = max(newest.get(key, (-1, b"")), (offset, value))
    return newest


def _check_keys(
    facts: _Facts, logs: Logs, replicas: Mapping[str, Logs], starts: Mapping[TopicPartition, int]
) -> Iterator[Violation]:
    """Check that each key has its newest value everywhere."""
    known: dict[TopicPartition, list[Read]] = defaultdict(list)
    placed = set()
    for ack in facts.acks:
        sent = facts.sends[ack.number]
        if ack.base_offset >= 0:
            placed.add(ack.number)
            known[sent.place] += [(ack.base_offset + at, value) for at, value in enumerate(sent.values)]
    for event in facts.reads:
        if isinstance(event, Polled):
            known[event.place] += event.records
    unplaced = {
        (each.place, key_of(value))
        for each in facts.sends.values()
        for value in each.values
        if each.number not in placed | facts.failed_for_certain and is_tombstone(value)
    }
    for place, records in logs.items():
        due = _newest([*known[place], *records])
        for name, those in replicas.items():
            if place not in those:
                continue
            there = _newest(those[place])
            for key, newest in due.items():
                if newest[0] < starts.get(place, 0):
                    continue
                found = there.get(key)
                may_be_deleted = is_tombstone(newest[1]) or (place, key) in unplaced
                is_deleted = found is None or is_tombstone(found[1])
                if found != newest and not (is_deleted and may_be_deleted):
                    what = "lost-write" if found is None else "old-value"
                    yield Violation(what, f"{place}: {name} has {found} of a key, {newest} is its newest")


def _at_most(found: Iterable[Violation]) -> list[Violation]:
    counts: dict[str, int] = defaultdict(int)
    kept = []
    for each in found:
        counts[each.name] += 1
        if counts[each.name] <= MAX_PER_KIND:
            kept.append(each)
    return kept


class _Facts:
    """The events, by kind."""

    def __init__(self, history: History) -> None:
        self.sends: dict[int, Sent] = {}
        self.acks: list[Acked] = []
        self.failed_for_certain: set[int] = set()
        self.reads: list[ReaderEvent] = []
        self.commits: dict[int, Committing] = {}
        self.confirmed: list[int] = []
        self.known_before: dict[int, int] = {}
        """For each send, the highest known offset of its partition at that time."""
        self.origin: dict[bytes, Sent] = {}
        known: dict[TopicPartition, int] = defaultdict(lambda: -1)
        for event in history.events:
            match event:
                case Sent():
                    self.sends[event.number] = event
                    self.known_before[event.number] = known[event.place]
                    self.origin.update(dict.fromkeys(event.values, event))
                case Acked():
                    self.acks.append(event)
                    sent = self.sends[event.number]
                    if event.base_offset >= 0 and sent.is_safe:
                        last = event.base_offset + len(sent.values) - 1
                        known[sent.place] = max(known[sent.place], last)
                case Failed(_, number, is_certain):
                    if is_certain:
                        self.failed_for_certain.add(number)
                case Polled():
                    self.reads.append(event)
                    if event.records:
                        known[event.place] = max(known[event.place], event.records[-1][0])
                case ReaderPositioned() | ReaderStopped():
                    self.reads.append(event)
                case Committing():
                    self.commits[event.number] = event
                case Committed(_, number):
                    self.confirmed.append(number)


def _check_offsets(facts: _Facts, logs: Logs) -> Iterator[Violation]:
    """Check that every offset has one value for all observers."""
    values: dict[tuple[TopicPartition, int], tuple[bytes, str]] = {}

    def see(place: TopicPartition, offset: int, value: bytes, by: str) -> Iterator[Violation]:
        before = values.setdefault((place, offset), (value, by))
        if before[0] != value:
            detail = f"{place} offset {offset} is {before[0]!r} for {before[1]} and {value!r} for {by}"
            yield Violation("inconsistent-offsets", detail)

    for place, records in logs.items():
        for offset, value in records:
            yield from see(place, offset, value, "the log")
    for ack in facts.acks:
        sent = facts.sends[ack.number]
        if ack.base_offset >= 0 and sent.is_safe:
            for at, value in enumerate(sent.values):
                by = f"{sent.producer} (acknowledged at {ack.at_s:.3f} s)"
                yield from see(sent.place, ack.base_offset + at, value, by)
    for event in facts.reads:
        if isinstance(event, Polled):
            for offset, value in event.records:
                yield from see(event.place, offset, value, f"{event.reader} (at {event.at_s:.3f} s)")


def _check_acks(facts: _Facts, logs: Logs, steady: Collection[TopicPartition]) -> Iterator[Violation]:
    there = {place: {value for _, value in records} for place, records in logs.items()}
    for ack in facts.acks:
        sent = facts.sends[ack.number]
        what = f"acknowledged to {sent.producer} at {ack.at_s:.3f} s: {sent.place} offset {ack.base_offset}"
        known = facts.known_before[ack.number]
        # Records that were acknowledged with acks=1, perhaps by a former leader, may be lost.
        if sent.is_safe and 0 <= ack.base_offset <= known:
            yield Violation("old-offset", f"{what}, but offset {known} was known before it was sent")
        if sent.is_safe or sent.place in steady:
            for value in sent.values:
                if value not in there.get(sent.place, ()):
                    yield Violation("lost-write", f"{what}, {value!r}")


def _check_values(facts: _Facts, logs: Logs) -> Iterator[Violation]:
    """Check that every record in the logs, or read, was sent, and exists once."""
    seen: dict[tuple[TopicPartition, bytes], set[int]] = defaultdict(set)
    for place, records in logs.items():
        for offset, value in records:
            seen[place, value].add(offset)
    for event in facts.reads:
        if isinstance(event, Polled):
            for offset, value in event.records:
                seen[event.place, value].add(offset)
    for (place, value), offsets in seen.items():
        sent = facts.origin.get(value)
        where = f"{value!r} at {place} offset {', '.join(map(str, sorted(offsets)))}"
        if sent is None or sent.place != place:
            yield Violation("phantom", where)
            continue
        if sent.number in facts.failed_for_certain:
            yield Violation("aborted-read", where)
        if sent.is_idempotent and len(offsets) > 1:
            yield Violation("duplicate", where)


def _check_order(facts: _Facts, logs: Logs) -> Iterator[Violation]:
    for place, records in logs.items():
        last: dict[str, int] = {}
        for offset, value in records:
            sent = facts.origin.get(value)
            if sent is None or not sent.is_idempotent:
                continue
            before = last.get(sent.producer, -1)
            if sent.number < before:
                detail = f"{value!r} of {sent.producer} at {place} offset {offset} follows a later record"
                yield Violation("reordered", detail)
            last[sent.producer] = max(before, sent.number)


def _check_polls(facts: _Facts, logs: Logs) -> Iterator[Violation]:
    """Check that readers get every offset once, in order, up to the end."""
    positions: dict[tuple[str, TopicPartition], int] = {}
    watermarks: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
    for event in facts.reads:
        reads = (event.reader, event.place)
        if isinstance(event, ReaderStopped):
            positions.pop(reads, None)
            continue
        if isinstance(event, ReaderPositioned):
            positions[reads] = event.position
            continue
        yield from _check_poll(event, positions.get(reads, event.position))
        positions[reads] = event.records[-1][0] + 1 if event.records else event.position
        epoch, watermark = watermarks.get(reads, (-1, -1))
        end = event.records[-1][0] + 1 if event.records else -1
        if (event.leader_epoch == epoch >= 0 and event.high_watermark < watermark) or (
            end > event.high_watermark >= 0
        ):
            received = f"high watermark {event.high_watermark} of {event.place} at {event.at_s:.3f} s"
            detail = f"{event.reader} received {received}"
            yield Violation("backward-watermark", f"{detail}, after {max(watermark, end)}")
        watermarks[reads] = (event.leader_epoch, event.high_watermark)
    for (reader, place), position in positions.items():
        records = logs.get(place, ())
        end = records[-1][0] + 1 if records else 0
        if position < end:
            yield Violation("unseen", f"{reader} has read {place} up to {position} of {end}")


def _check_poll(event: Polled, expected: int) -> Iterator[Violation]:
    who = f"{event.reader} of {event.place} at {event.at_s:.3f} s"
    steps = [(event.position, expected)]
    follows = event.position
    for offset, _ in event.records:
        steps.append((offset, follows))
        follows = offset + 1
    for offset, due in steps:
        if offset != due:
            name = "poll-skip" if offset > due else "nonmonotonic-poll"
            yield Violation(name, f"{who}: {offset} instead of {due}")


def _check_commits(facts: _Facts, logs: Logs, commits: Commits | None) -> Iterator[Violation]:
    highest: dict[tuple[str, int, TopicPartition], int] = {}
    last: dict[tuple[str, TopicPartition], Committing] = {}
    for number in facts.confirmed:
        each = facts.commits[number]
        of_generation = (each.group, each.generation, each.place)
        what = f"{each.group} committed {each.offset} of {each.place} in generation {each.generation}"
        if each.offset < highest.get(of_generation, 0):
            yield Violation("backward-commit", f"{what} after {highest[of_generation]}")
        records = logs.get(each.place, ())
        end = records[-1][0] + 1 if records else 0
        if each.offset > end:
            yield Violation("backward-commit", f"{what}, but the log ends at {end}")
        highest[of_generation] = max(each.offset, highest.get(of_generation, 0))
        last[each.group, each.place] = each
    if commits is None:
        return
    for key, each in last.items():
        # Attempts after the last confirmed one may have succeeded, too.
        possible = {each.offset} | {
            other.offset
            for other in facts.commits.values()
            if (other.group, other.place) == key and other.number > each.number
        }
        if commits.get(key) not in possible:
            detail = f"{each.group} committed {each.offset} of {each.place}, but {commits.get(key)} is there"
            yield Violation("lost-commit", detail)


def _check_generations(history: History) -> Iterator[Violation]:
    """Check that a generation commits nothing more once a newer one has committed."""
    newest: dict[tuple[str, TopicPartition], int] = defaultdict(int)
    zombies: dict[int, str] = {}
    by_number: dict[int, Committing] = {}
    for event in history.events:
        match event:
            case Committing(_, number, group, generation, place, offset):
                by_number[number] = event
                if generation < (other := newest[group, place]):
                    what = f"{group} committed {offset} of {place} in generation {generation}"
                    zombies[number] = f"{what}, after generation {other}"
            case Committed(_, number):
                if number in zombies:
                    yield Violation("zombie-commit", f"{zombies[number]}, at {event.at_s:.3f} s")
                commit = by_number[number]
                key = commit.group, commit.place
                newest[key] = max(newest[key], commit.generation)


def _check_commit_reads(history: History) -> Iterator[Violation]:
    """Check that a fetched offset is the last one confirmed before the request, or newer."""
    tried: dict[tuple[str, TopicPartition], list[Committing]] = defaultdict(list)
    by_number: dict[int, Committing] = {}
    confirmed: dict[tuple[str, TopicPartition], list[tuple[int, Committing]]] = defaultdict(list)
    for at, event in enumerate(history.events):
        match event:
            case Committing():
                by_number[event.number] = event
                tried[event.group, event.place].append(event)
            case Committed(_, number):
                commit = by_number[number]
                confirmed[commit.group, commit.place].append((at, commit))
            case CommitRead(_, group, place, offset, since):
                last = next((each for at, each in reversed(confirmed[group, place]) if at < since), None)
                newer = {
                    each.offset for each in tried[group, place] if last is None or each.number > last.number
                }
                if offset not in newer | {0 if last is None else last.offset}:
                    what = "nothing" if last is None else f"{last.offset} in generation {last.generation}"
                    detail = f"{group} had committed {what} of {place}, and fetched {offset}"
                    yield Violation("lost-commit", f"{detail} at {event.at_s:.3f} s")
