"""Repeated log lines are few, and say how many more there were."""

from __future__ import annotations

import logging

import pytest

from ottla.api.support import audit_log as api_audit_log
from ottla.common.log_limit import MAX_KINDS, LineLimit, RepeatedLines
from ottla.console.access import audit as console_audit
from ottla.http.app import access_log


def record(text: str, *args: object, at_s: float = 0.0, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "ottla.log", "levelno": logging.WARNING, "msg": text, "args": args})
    made.created = at_s
    vars(made).update(extra)
    return made


def test_the_first_lines_of_a_kind_are_written_and_the_rest_counted() -> None:
    limit = RepeatedLines(lines=2, window_s=10)
    written = [limit.filter(record("append to %s failed", f"t-{number}", at_s=0.1)) for number in range(15)]
    assert written == [True, True, *[False] * 13]
    later = record("append to %s failed", "t-0", at_s=12)
    assert limit.filter(later)
    assert later.getMessage() == "append to t-0 failed (13 more such lines were left out before)"
    again = record("append to %s failed", "t-0", at_s=30)
    assert limit.filter(again)
    assert again.getMessage() == "append to t-0 failed"


def test_other_lines_are_of_other_kinds() -> None:
    limit = RepeatedLines(lines=1, window_s=10)
    assert limit.filter(record("a %s", "b"))
    assert limit.filter(record("c %s", "b"))
    assert not limit.filter(record("a %s", "d"))


def test_events_and_lines_about_peers_are_not_left_out() -> None:
    limit = RepeatedLines(lines=1, window_s=10)
    for number in range(10):
        assert limit.filter(record("%s", f"t-{number} is offline", event="partition-offline"))
        assert limit.filter(record("%s: %s", "peer", "x", peer="10.0.0.1:5"))


@pytest.mark.parametrize(
    ("log", "level"),
    [
        (api_audit_log.log, logging.INFO),
        (console_audit.log, logging.INFO),
        (access_log, logging.DEBUG),
    ],
)
def test_audit_and_access_logs_are_complete(log: logging.Logger, level: int) -> None:
    """One denied client could otherwise keep the changes of everybody out of the log."""
    limit = RepeatedLines(lines=1, window_s=10)
    for number in range(10):
        assert limit.filter(record("%s", f"change {number}", name=log.name, levelno=level))


def test_failed_requests_in_the_access_log_are_limited() -> None:
    limit = RepeatedLines(lines=1, window_s=10)
    assert limit.filter(record("GET %s 503", "/", name=access_log.name, levelno=logging.INFO))
    assert not limit.filter(record("GET %s 503", "/", name=access_log.name, levelno=logging.INFO))


def test_a_text_with_a_percent_sign_survives() -> None:
    limit = RepeatedLines(lines=1, window_s=10)
    assert limit.filter(record("%s full", "99 %"))
    assert not limit.filter(record("%s full", "99 %"))
    later = record("%s full", "99 %", at_s=11)
    assert limit.filter(later)
    assert later.getMessage() == "99 % full (1 more such lines were left out before)"


def test_a_clock_that_steps_back_does_not_silence_a_kind() -> None:
    limit = LineLimit(1, 10)
    assert limit.admit("a", 1_000) == 0
    assert limit.admit("a", 1_001) is None
    assert limit.admit("a", 5) == 1


def test_the_number_of_kinds_is_bounded() -> None:
    limit = LineLimit(1, 10)
    for number in range(MAX_KINDS + 50):
        assert limit.admit(number, 0.0) == 0
    assert len(limit._windows) == MAX_KINDS
