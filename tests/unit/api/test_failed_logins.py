"""A failed login is counted and in the audit log once, also if the client leaves before it has ended."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.coordinator.coordinator_bench import Client

from ottla.api.support.audit_log import AuditLog
from ottla.api.support.authentication import authenticate
from ottla.api.support.context import RequestContext
from ottla.common.clock import ManualClock
from ottla.protocol.api_keys import ApiKey
from ottla.security.exchange import AuthenticationRefused
from ottla.security.oauthbearer import ClaimRules, OAuthBearerServer
from ottla.security.plain import PlainServer
from ottla.security.sasl import SaslSession


def new_context(mechanism: str, exchange: Any, written: list[str]) -> RequestContext:
    """Return the context of a client that has chosen a mechanism."""
    clock, client = ManualClock(), Client()
    session = SaslSession((mechanism,), lambda _: exchange, lambda _: 0)
    session.handshake(mechanism, 0)
    client.sasl = session  # type: ignore[assignment]
    audit = AuditLog(1, clock, [written.append], denials_per_second=10)
    services: Any = SimpleNamespace(clock=clock, audit=audit, logins=Counter())
    return RequestContext(services, client, ApiKey.SASL_AUTHENTICATE, 2, 1, "app")  # type: ignore[arg-type]


def test_a_token_that_is_refused_is_noted_before_the_client_acknowledges_it() -> None:
    written: list[str] = []
    ctx = new_context("OAUTHBEARER", OAuthBearerServer(lambda _: {}, ClaimRules(), lambda: 0), written)
    authenticate(ctx, b"n,,\x01auth=Bearer wrong\x01\x01")
    assert ctx.services.logins == {("OAUTHBEARER", False): 1}
    with pytest.raises(AuthenticationRefused):
        authenticate(ctx, b"\x01")
    assert ctx.services.logins == {("OAUTHBEARER", False): 1}
    assert [json.loads(each)["name"] for each in written] == ["OAUTHBEARER"]


def test_a_wrong_password_is_noted_once() -> None:
    written: list[str] = []
    ctx = new_context("PLAIN", PlainServer({"alice": "s3cret"}), written)
    with pytest.raises(AuthenticationRefused):
        authenticate(ctx, b"\0alice\0guess")
    assert ctx.services.logins == {("PLAIN", False): 1}
    assert [json.loads(each)["name"] for each in written] == ["PLAIN"]
