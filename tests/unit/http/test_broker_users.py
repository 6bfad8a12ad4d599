"""Users of HTTP whom a broker verifies: which credentials are not even tried."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from ottla.client.client_options import ClientOptions
from ottla.common.clock import ManualClock
from ottla.http.broker_users import MAX_LOGINS, BrokerUsers
from ottla.http.guard import guarded
from ottla.http.limits import HttpLimits


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def accepted() -> list[bool]:
    """What the broker answers: the last of these."""
    return [True]


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch, clock: ManualClock, accepted: list[bool]) -> BrokerUsers:
    async def accepts(options: ClientOptions) -> bool:
        return accepted[-1]

    found = BrokerUsers(ClientOptions(bootstrap_servers="127.0.0.1:1"), clock=clock)
    monkeypatch.setattr(found, "_logs_in", accepts)
    return found


def token_of(claims: object) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()}.e30"


async def test_a_token_is_not_remembered_longer_than_it_is_valid(
    users: BrokerUsers, clock: ManualClock, accepted: list[bool]
) -> None:
    token = token_of({"sub": " alice ", "exp": clock.wall_ms() // 1000 + 10})
    assert await users.token(token) == "User:alice", "brokers strip the name as well"
    accepted.append(False)
    clock.advance(9_000)
    assert await users.token(token) == "User:alice"
    clock.advance(2_000)
    assert await users.token(token) is None
    assert await users.token(token_of({"sub": " ", "exp": 2_000_000_000})) is None


@pytest.mark.parametrize("user", ["mal\u00adlory", "\uff4dallory", "mal\u200blory", "mallory\u00a0"])
async def test_a_spelling_that_scram_changes_is_refused(users: BrokerUsers, user: str) -> None:
    assert await users.password(user, "secret") is None
    assert await users.password("mallory", "secret") == "User:mallory"
    assert await users.password("Zoë", "secret") == "User:Zoë"


async def test_a_token_of_nested_lists_is_refused(users: BrokerUsers) -> None:
    nested = base64.urlsafe_b64encode(b"[" * 9_000).decode()
    assert await users.token(f"e30.{nested}.e30") is None


async def test_a_user_who_was_accepted_before_does_not_wait_behind_wrong_passwords(
    users: BrokerUsers, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await users.password("alice", "secret", "10.0.0.1") == "User:alice"
    clock.advance(120_000)
    refuse = asyncio.Event()
    tried: list[str] = []

    async def logs_in(options: ClientOptions) -> bool:
        tried.append(options.sasl_plain_username or "")
        if options.sasl_plain_password == "secret":
            return True
        await refuse.wait()
        return False

    monkeypatch.setattr(users, "_logs_in", logs_in)
    wrong = [asyncio.create_task(users.password(f"guess-{n}", "wrong", f"10.0.1.{n}")) for n in range(100)]
    await asyncio.sleep(0)
    right = [asyncio.create_task(users.password("alice", "secret", "10.0.0.1")) for _ in range(2)]
    await asyncio.sleep(0)
    refuse.set()
    assert await asyncio.gather(*right) == ["User:alice", "User:alice"]
    assert tried[MAX_LOGINS] == "alice"
    assert tried.count("alice") == 1, "the second request takes the answer of the first"
    assert await asyncio.gather(*wrong) == [None] * 100


def test_a_connection_does_not_inherit_the_certificate_of_the_one_before() -> None:
    class Protocol:
        client = ("127.0.0.1", 5000)
        connections = frozenset[Any]()

        def connection_made(self, transport: Any) -> None:
            self.loop = transport

        def connection_lost(self, exc: Exception | None) -> None:
            """Do nothing."""

    class Transport:
        def get_extra_info(self, name: str) -> None:
            return None

        def call_later(self, delay_s: float, callback: Any) -> None:
            return None

    names = {Protocol.client: "CN=admin"}
    guarded(Protocol, HttpLimits(), names)().connection_made(Transport())
    assert names == {}
