"""The checker finds what it is there to find: every planted anomaly, and nothing in a good history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ottla.common.ids import TopicPartition
from ottla.testing.checker import check
from ottla.testing.history import History, Read

HERE = TopicPartition("t", 0)


@dataclass
class Story:
    """A good history of one partition, to be spoiled: six records, two producers, one reader, one group."""

    history: History = field(default_factory=History)
    log: list[Read] = field(default_factory=list)
    commits: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.history.sought("c1", HERE, 0)
        for number in range(3):
            for producer in ("p1", "p2"):
                self.send(producer, f"{producer}-{number}".encode(), at=len(self.log))
        self.poll(0, self.log[:4])
        self.poll(4, self.log[4:])
        self.commit(1, 4)
        self.commit(1, 6)
        self.commits["g", HERE] = 6

    def send(self, producer: str, value: bytes, *, at: int) -> int:
        number = self.history.sent(producer, HERE, [value])
        self.history.acked(number, at)
        self.log.append((at, value))
        return number

    def poll(self, position: int, records: list[Read], *, watermark: int = 100, epoch: int = 3) -> None:
        self.history.polled("c1", HERE, position, records, watermark, epoch)

    def commit(self, generation: int, offset: int) -> None:
        self.history.committed(self.history.committing("g", generation, HERE, offset))

    def read_commit(self, offset: int, since: int | None = None) -> None:
        asked = len(self.history.events) if since is None else since
        self.history.commit_read("g", HERE, offset, asked)

    def verdict(self) -> set[str]:
        return {each.name for each in check(self.history, {HERE: self.log}, self.commits)}


def lose_the_last(story: Story) -> None:
    story.log.pop()


def let_the_reader_miss_the_last(story: Story) -> None:
    story.send("p1", b"p1-9", at=6)


def let_two_values_be_at_an_offset(story: Story) -> None:
    story.log[2] = (2, story.log[3][1])


def repeat_a_record(story: Story) -> None:
    story.log.append((6, story.log[0][1]))
    story.poll(6, story.log[6:])


def swap_two_records_of_a_producer(story: Story) -> None:
    story.log[0], story.log[2] = (0, story.log[2][1]), (2, story.log[0][1])


def acknowledge_an_offset_from_before(story: Story) -> None:
    story.history.acked(story.history.sent("p1", HERE, [b"p1-9"]), 3)


def invent_a_record(story: Story) -> None:
    story.log.append((6, b"nobody's"))
    story.poll(6, story.log[6:])


def put_a_record_elsewhere(story: Story) -> None:
    story.history.sent("p1", TopicPartition("t", 1), [b"elsewhere"])
    story.log.append((6, b"elsewhere"))
    story.poll(6, story.log[6:])


def keep_a_record_that_failed(story: Story) -> None:
    number = story.history.sent("p1", HERE, [b"p1-9"])
    story.history.failed(number, is_certain=True)
    story.log.append((6, b"p1-9"))
    story.poll(6, story.log[6:])


def let_the_reader_skip(story: Story) -> None:
    story.send("p1", b"p1-8", at=6)
    story.send("p1", b"p1-9", at=7)
    story.poll(6, story.log[7:])


def let_the_reader_step_back(story: Story) -> None:
    story.poll(5, story.log[5:])


def let_the_watermark_fall(story: Story) -> None:
    story.poll(6, [], watermark=50)


def hand_out_more_than_the_watermark(story: Story) -> None:
    story.send("p1", b"p1-9", at=6)
    story.poll(6, story.log[6:], watermark=6, epoch=4)


def let_a_commit_fall(story: Story) -> None:
    story.commit(1, 5)
    story.commits["g", HERE] = 5


def commit_what_is_not_there(story: Story) -> None:
    story.commit(1, 60)
    story.commits["g", HERE] = 60


def commit_for_an_old_generation(story: Story) -> None:
    story.commit(3, 6)
    story.commit(2, 6)


def lose_a_commit(story: Story) -> None:
    story.commits["g", HERE] = 4


def lose_a_commit_for_a_while(story: Story) -> None:
    story.read_commit(4)
    story.commit(2, 6)


def tell_what_nobody_committed(story: Story) -> None:
    story.read_commit(5)


PLANTED: list[tuple[str, Callable[[Story], None]]] = [
    ("lost-write", lose_the_last),
    ("unseen", let_the_reader_miss_the_last),
    ("inconsistent-offsets", let_two_values_be_at_an_offset),
    ("duplicate", repeat_a_record),
    ("reordered", swap_two_records_of_a_producer),
    ("old-offset", acknowledge_an_offset_from_before),
    ("phantom", invent_a_record),
    ("phantom", put_a_record_elsewhere),
    ("aborted-read", keep_a_record_that_failed),
    ("poll-skip", let_the_reader_skip),
    ("nonmonotonic-poll", let_the_reader_step_back),
    ("backward-watermark", let_the_watermark_fall),
    ("backward-watermark", hand_out_more_than_the_watermark),
    ("backward-commit", let_a_commit_fall),
    ("backward-commit", commit_what_is_not_there),
    ("zombie-commit", commit_for_an_old_generation),
    ("lost-commit", lose_a_commit),
    ("lost-commit", lose_a_commit_for_a_while),
    ("lost-commit", tell_what_nobody_committed),
]


def test_a_good_history_is_good() -> None:
    assert Story().verdict() == set()


@pytest.mark.parametrize(("name", "plant"), PLANTED, ids=[plant.__name__ for _, plant in PLANTED])
def test_a_planted_anomaly_is_found(name: str, plant: Callable[[Story], None]) -> None:
    story = Story()
    plant(story)
    assert name in story.verdict()


def test_a_send_of_unknown_outcome_may_be_there_or_not() -> None:
    story = Story()
    story.history.failed(story.history.sent("p1", HERE, [b"p1-8"]), is_certain=False)
    assert story.verdict() == set()
    story.history.failed(story.history.sent("p1", HERE, [b"p1-9"]), is_certain=False)
    story.log.append((6, b"p1-9"))
    story.poll(6, story.log[6:])
    assert story.verdict() == set()


def test_a_plain_producer_may_repeat_itself_and_an_unsafe_one_may_lose() -> None:
    story = Story()
    repeated = story.history.sent("plain", HERE, [b"plain"], is_idempotent=False)
    story.history.acked(repeated, 7)
    story.history.acked(story.history.sent("unsafe", HERE, [b"unsafe"], is_safe=False), 8)
    story.log += [(6, b"plain"), (7, b"plain")]
    story.poll(6, story.log[6:])
    assert story.verdict() == set()


def test_an_unsafe_producer_may_hear_from_a_leader_of_old_that_counts_for_itself() -> None:
    story = Story()
    story.history.acked(story.history.sent("unsafe", HERE, [b"unsafe"], is_safe=False), 0)
    assert story.verdict() == set()


def test_the_watermark_may_fall_with_a_new_leader_and_readers_may_leave() -> None:
    story = Story()
    story.poll(6, [], watermark=50, epoch=4)
    story.history.sought("c2", HERE, 0)
    story.history.left("c2", HERE)
    assert story.verdict() == set()


def test_a_commit_that_was_not_confirmed_may_have_happened() -> None:
    story = Story()
    story.history.committing("g", 2, HERE, 5)
    story.commits["g", HERE] = 5
    assert story.verdict() == set()


def test_a_new_generation_may_commit_less() -> None:
    story = Story()
    story.commit(2, 3)
    story.commits["g", HERE] = 3
    assert story.verdict() == set()


def test_a_commit_that_was_confirmed_after_somebody_asked_need_not_be_reported() -> None:
    story = Story()
    asked = len(story.history.events)
    story.commit(2, 7)
    story.commits["g", HERE] = 7
    story.send("p1", b"p1-7", at=6)
    story.poll(6, story.log[6:])
    for offset in (6, 7):
        story.read_commit(offset, since=asked)
    assert story.verdict() == set()


def test_before_the_first_commit_nothing_is_reported() -> None:
    story = Story()
    story.read_commit(0, since=0)
    assert story.verdict() == set()
