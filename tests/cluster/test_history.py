"""The checker finds what it is there to find: every planted anomaly, and nothing in a good history."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cluster.history import Checker, History, Read

HERE = ("t", 0)


def two_producers() -> tuple[History, list[Read]]:
    """Five records of an idempotent producer and five of another one, in turn, all acknowledged."""
    history = History()
    streams = [
        history.stream("careful", HERE, exactly_once=True),
        history.stream("plain", HERE, exactly_once=False),
    ]
    log: list[Read] = []
    for _ in range(5):
        for stream in streams:
            number, value = history.next_value(stream)
            history.acknowledge(stream, number, len(log))
            log.append((len(log), value))
    return history, log


def renumbered(log: list[Read]) -> list[Read]:
    return [(offset, value) for offset, (_, value) in enumerate(log)]


def test_a_good_history_is_good_however_it_is_cut_into_rounds() -> None:
    history, log = two_producers()
    assert Checker(history).check(HERE, log) == []
    late = Checker(history)
    assert [problem.split(":")[0] for problem in late.check(HERE, log[:4])] == ["lost"] * 6
    assert late.check(HERE, log[4:]) == []


def test_a_plain_producer_may_repeat_itself() -> None:
    history, log = two_producers()
    repeated = [*log, (10, log[7][1]), (11, log[9][1])]
    assert Checker(history).check(HERE, repeated) == []


PLANTED: dict[str, Callable[[list[Read]], list[Read]]] = {
    "lost": lambda log: log[:-1],
    "moved": lambda log: renumbered(log[:4] + log[5:]),
    "phantom": lambda log: [*log, (10, b"careful/t/0/9|")],
    "duplicate": lambda log: [*log, (10, log[8][1])],
    "disorder": lambda log: renumbered([log[2], log[1], log[0], *log[3:]]),
    "gap": lambda log: log[:4] + log[5:],
}


@pytest.mark.parametrize("anomaly", PLANTED)
def test_a_planted_anomaly_is_found(anomaly: str) -> None:
    history, log = two_producers()
    problems = Checker(history).check(HERE, PLANTED[anomaly](log))
    assert anomaly in {problem.split(":")[0] for problem in problems}


def test_a_value_with_one_other_byte_is_a_phantom() -> None:
    history, log = two_producers()
    at = max(range(len(log)), key=lambda index: len(log[index][1] or b""))
    value = bytearray(log[at][1] or b"")
    value[-1] ^= 1
    log[at] = (at, bytes(value))
    problems = Checker(history).check(HERE, log)
    assert any(problem.startswith("phantom") for problem in problems)


def test_an_acknowledgement_of_an_offset_from_before_is_found() -> None:
    history, log = two_producers()
    checker = Checker(history)
    assert checker.check(HERE, log) == []
    number, value = history.next_value(0)
    history.acknowledge(0, number, 3)
    problems = checker.check(HERE, [(10, value)])
    assert [problem.split(":")[0] for problem in problems] == ["old offset"]


def test_a_record_that_was_acknowledged_only_with_a_later_one_must_be_there_too() -> None:
    history, log = two_producers()
    number, value = history.next_value(0)
    history.acknowledge(0, number, None)
    checker = Checker(history)
    assert checker.check(HERE, log) == []
    assert [problem.split(":")[0] for problem in checker.check_implied()] == ["lost"]
    assert checker.check(HERE, [(10, value)]) == []
    assert checker.check_implied() == []
