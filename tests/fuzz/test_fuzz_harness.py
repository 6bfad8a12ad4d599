"""The watcher is watched: every kind of harm, done on purpose, is noticed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.fuzz.generator import FrameSource
from tests.fuzz.harness import FuzzBroker
from tests.fuzz.messages import request_head, served
from tests.fuzz.verdicts import Problem, TooSlow

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRequest

FRAME = request_head(ApiKey.HEARTBEAT, 0, 7) + b"\0\1g\0\0\0\1\0\1m"
ANSWER = b"\0\0\0\6\0\0\0\7\0\0"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzBroker]:
    with FuzzBroker(tmp_path_factory.mktemp("harness") / "data") as started:
        yield started


@pytest.fixture
def with_handler(shared: FuzzBroker, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], FuzzBroker]:
    def plant(handle: Callable[[], Any]) -> FuzzBroker:
        monkeypatch.setattr(shared.dispatcher, "handle", lambda _client, _frame: handle())
        return shared

    return plant


def burn(seconds: float) -> bytes:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return ANSWER


async def fail() -> bytes:
    raise ValueError("planted")


async def refuse() -> bytes:
    raise InvalidRequest("planted")


async def complain() -> bytes:
    logging.getLogger("ottla.planted").error("planted")
    return ANSWER


async def block() -> bytes:
    return burn(0.3)


async def take_turns() -> bytes:
    for _ in range(4):
        burn(0.06)
        await asyncio.sleep(0)
    return ANSWER


def test_a_frame_that_does_no_harm_is_let_through(with_handler: Callable[[Any], FuzzBroker]) -> None:
    with_handler(lambda: ANSWER).feed([FRAME])
    with_handler(refuse).feed([FRAME])
    with_handler(take_turns).feed([FRAME])


def test_an_exception_is_noticed(with_handler: Callable[[Any], FuzzBroker]) -> None:
    with pytest.raises(Problem, match=f"(?s)ZeroDivisionError escaped.*HEARTBEAT v0: {FRAME.hex()}"):
        with_handler(lambda: 1 // 0).feed([FRAME])
    with pytest.raises(Problem, match="ValueError escaped later"):
        with_handler(fail).feed([FRAME])


def test_a_line_in_the_log_is_noticed(with_handler: Callable[[Any], FuzzBroker]) -> None:
    with pytest.raises(Problem, match=r"logged an error:\nottla.planted: planted"):
        with_handler(complain).feed([FRAME])


def test_a_blocked_loop_is_noticed(with_handler: Callable[[Any], FuzzBroker]) -> None:
    with pytest.raises(TooSlow):
        with_handler(lambda: burn(0.3)).feed([FRAME])
    with pytest.raises(TooSlow):
        with_handler(block).feed([FRAME])


def test_one_slow_moment_is_forgiven(with_handler: Callable[[Any], FuzzBroker]) -> None:
    moments = iter([0.3])
    with_handler(lambda: burn(next(moments, 0))).feed([FRAME])


def test_an_answer_that_is_wrong_is_noticed(with_handler: Callable[[Any], FuzzBroker]) -> None:
    for wrong in (b"", ANSWER + b"\0", b"\0\0\0\6\0\0\0\x08\0\0", b"\0\0\0\5\0\0\0\7\0"):
        with pytest.raises(Problem):
            with_handler(lambda wrong=wrong: wrong).feed([FRAME])


def test_a_request_that_never_ends_is_noticed(
    with_handler: Callable[[Any], FuzzBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.harness.RELEASE_S", 0.05)
    with pytest.raises(Problem, match="still waits"):
        with_handler(lambda: asyncio.get_running_loop().create_future()).feed([FRAME])


@pytest.mark.parametrize(("api_key", "versions"), served(), ids=lambda each: getattr(each, "name", ""))
def test_the_same_seed_gives_the_same_frames(
    shared: FuzzBroker, api_key: ApiKey, versions: list[int]
) -> None:
    once, again, other = (FrameSource(seed, shared.world, api_key, versions) for seed in ("a", "a", "b"))
    frames = list(once.take(60))
    assert frames == list(again.take(60))
    assert frames != list(other.take(60))
