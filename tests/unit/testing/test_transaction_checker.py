"""The checker of transactions finds every planted anomaly, and nothing in a good course of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ottla.common.ids import TopicPartition
from ottla.testing.history import Read
from ottla.testing.simulation.transactions.attempts import Attempt, TransactionHistory
from ottla.testing.simulation.transactions.check import check_reader, check_transactions

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass
class Story:
    """Three transactions of one id on two partitions: committed, aborted, and one that nobody knows of."""

    ledger: TransactionHistory = field(default_factory=lambda: TransactionHistory(lambda: 0.0))
    logs: dict[TopicPartition, list[Read]] = field(default_factory=lambda: {HERE: [], THERE: []})
    offsets: dict[str, int] = field(default_factory=lambda: {"one": 2})

    def __post_init__(self) -> None:
        self.committed, self.aborted, self.unknown = (self.begin() for _ in range(3))
        self.committed.is_commit_asked = self.committed.is_commit_confirmed = True
        self.unknown.is_commit_asked = True
        self.show(self.committed, HERE, THERE)
        self.show(self.unknown, HERE, THERE)
        self.ledger.offsets_seen["one"] = {-1, 0, 2}

    def begin(self) -> Attempt:
        attempt = self.ledger.begin("one")
        attempt.has_offset = True
        attempt.new_values(HERE, 2)
        attempt.new_values(THERE, 1)
        return attempt

    def show(self, attempt: Attempt, *places: TopicPartition) -> None:
        for place in places:
            for value in attempt.values[place]:
                self.logs[place].append((10 * len(self.logs[place]), value))

    def verdict(self) -> set[str]:
        found = check_transactions(self.ledger, self.logs, self.offsets)
        return {each.name for each in found}


def lose_a_committed_record(story: Story) -> None:
    del story.logs[HERE][0]


def show_what_was_aborted(story: Story) -> None:
    story.logs[HERE].insert(2, (15, story.aborted.values[HERE][0]))


def show_half_of_what_is_not_known(story: Story) -> None:
    story.logs[THERE].pop()
    story.offsets["one"] = 0


def forget_the_offset(story: Story) -> None:
    story.offsets["one"] = 0


def count_an_offset_of_a_transaction_that_is_not_there(story: Story) -> None:
    story.logs = {HERE: story.logs[HERE][:2], THERE: story.logs[THERE][:1]}


def tell_an_offset_that_was_aborted(story: Story) -> None:
    story.ledger.offsets_seen["one"].add(1)


def show_a_record_twice(story: Story) -> None:
    story.logs[HERE].append((90, story.unknown.values[HERE][1]))


def show_a_record_in_another_partition(story: Story) -> None:
    story.logs[THERE].append((90, story.unknown.values[HERE][1]))


def swap_two_transactions(story: Story) -> None:
    story.logs[HERE] = [
        (at, value)
        for (at, _), (_, value) in zip(
            story.logs[HERE], [*story.logs[HERE][2:], *story.logs[HERE][:2]], strict=True
        )
    ]


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (lose_a_committed_record, "lost-transaction"),
        (show_what_was_aborted, "aborted-read"),
        (show_half_of_what_is_not_known, "torn-transaction"),
        (forget_the_offset, "torn-offset"),
        (count_an_offset_of_a_transaction_that_is_not_there, "torn-offset"),
        (tell_an_offset_that_was_aborted, "aborted-read"),
        (show_a_record_twice, "duplicate"),
        (show_a_record_in_another_partition, "phantom"),
        (swap_two_transactions, "reordered"),
    ],
)
def test_a_planted_anomaly_is_found(spoil: Callable[[Story], None], name: str) -> None:
    story = Story()
    spoil(story)
    assert name in story.verdict()


def test_a_good_course_of_events_is_not_blamed() -> None:
    assert Story().verdict() == set()


def test_an_unacknowledged_transaction_may_be_missing_as_a_whole() -> None:
    story = Story()
    count_an_offset_of_a_transaction_that_is_not_there(story)
    story.offsets["one"] = 0
    assert story.verdict() == set()


def test_a_reader_must_have_seen_what_is_there_and_nothing_else() -> None:
    logs = Story().logs
    ends = dict.fromkeys(logs, 100)
    assert not list(check_reader("r", logs, ends, logs))
    less = {HERE: logs[HERE][:1], THERE: logs[THERE]}
    assert [each.name for each in check_reader("r", less, ends, logs)] == ["inconsistent-read"]
    assert [each.name for each in check_reader("r", less, {HERE: 1, THERE: 100}, logs)] == ["unseen"]
