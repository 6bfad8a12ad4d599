"""Whose login is tried next."""

from __future__ import annotations

import asyncio

import pytest

from ottla.http.login_queue import LoginQueue


class Logins:
    """Logins that take until they are told to end, and the order in which they began."""

    def __init__(self, at_once: int = 1) -> None:
        self.queue = LoginQueue(at_once)
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def want(self, name: str, address: str, *, is_known: bool = False) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._log_in(name, address, is_known))
        await asyncio.sleep(0)

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await asyncio.sleep(0)

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._tasks[name]

    async def _log_in(self, name: str, address: str, is_known: bool) -> None:
        async with self.queue.slot(address, is_known=is_known):
            self.begun.append(name)
            await self._ends[name].wait()


async def test_a_flood_from_one_address_delays_another_by_one_turn() -> None:
    logins = Logins(at_once=2)
    for number in range(50):
        await logins.want(f"wrong-{number}", "10.0.0.1")
    await logins.want("alice", "10.0.0.2")
    assert logins.begun == ["wrong-0", "wrong-1"]
    await logins.end("wrong-0")
    await logins.end("wrong-1")
    assert logins.begun == ["wrong-0", "wrong-1", "wrong-2", "alice"]


async def test_credentials_that_were_accepted_before_go_first() -> None:
    logins = Logins()
    for number in range(5):
        await logins.want(f"wrong-{number}", f"10.0.0.{number}")
    await logins.want("alice", "10.0.0.1", is_known=True)
    await logins.end("wrong-0")
    assert logins.begun == ["wrong-0", "alice"]


async def test_the_addresses_of_one_ipv6_network_share_their_turns() -> None:
    logins = Logins()
    for number in range(3):
        await logins.want(f"wrong-{number}", f"2001:db8::{number}")
    await logins.want("alice", "2001:db8:0:1::1")
    await logins.end("wrong-0")
    await logins.end("wrong-1")
    assert logins.begun == ["wrong-0", "wrong-1", "alice"]


async def test_ipv4_addresses_stay_separate_when_they_come_over_ipv6() -> None:
    logins = Logins()
    await logins.want("first", "::ffff:10.0.0.1")
    for number in range(3):
        await logins.want(f"wrong-{number}", "::ffff:10.0.0.1")
    await logins.want("alice", "::ffff:10.0.0.2")
    await logins.end("first")
    await logins.end("wrong-0")
    assert logins.begun == ["first", "wrong-0", "alice"]


async def test_who_stops_waiting_takes_no_place() -> None:
    logins = Logins()
    for name in ("first", "second", "third"):
        await logins.want(name, "10.0.0.1")
    await logins.cancel("second")
    await logins.end("first")
    assert logins.begun == ["first", "third"]
    await logins.end("third")
    await logins.want("fourth", "10.0.0.1")
    assert logins.begun[-1] == "fourth"


async def test_who_is_cancelled_when_its_turn_comes_passes_it_on() -> None:
    logins = Logins()
    for name in ("first", "second", "third"):
        await logins.want(name, "10.0.0.1")
    logins._ends["first"].set()
    await asyncio.sleep(0)  # the place is given to the second, which has not run yet
    await logins.cancel("second")
    await asyncio.sleep(0)
    assert logins.begun == ["first", "third"]
