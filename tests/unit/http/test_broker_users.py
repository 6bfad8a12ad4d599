"""Users of HTTP whom a broker verifies: which credentials are not even tried."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ottla.client.client_options import ClientOptions
from ottla.http.broker_users import BrokerUsers
from ottla.http.guard import guarded
from ottla.http.limits import HttpLimits


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> BrokerUsers:
    async def accepts(options: ClientOptions) -> bool:
        return True

    found = BrokerUsers(ClientOptions(bootstrap_servers="127.0.0.1:1"))
    monkeypatch.setattr(found, "_logs_in", accepts)
    return found


@pytest.mark.parametrize("user", ["mal\u00adlory", "\uff4dallory", "mal\u200blory", "mallory\u00a0"])
async def test_a_spelling_that_scram_changes_is_refused(users: BrokerUsers, user: str) -> None:
    assert await users.password(user, "secret") is None
    assert await users.password("mallory", "secret") == "User:mallory"
    assert await users.password("Zoë", "secret") == "User:Zoë"


async def test_a_token_of_nested_lists_is_refused(users: BrokerUsers) -> None:
    nested = base64.urlsafe_b64encode(b"[" * 9_000).decode()
    assert await users.token(f"e30.{nested}.e30") is None


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
