"""What the console reads of Kafka Connect."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.console.services.connect_client import ConnectClient
from ottla.console.services.http_json import ServiceRefused
from ottla.http.json_client import HttpRefused, JsonClient


def answering(monkeypatch: pytest.MonkeyPatch, status: int) -> ConnectClient:
    """Return a client of a worker that refuses every request."""

    def ask(*_: Any) -> Any:
        raise HttpRefused(status, {"error_code": status, "message": "No status found for connector new"})

    monkeypatch.setattr(JsonClient, "ask", ask)
    return ConnectClient("http://127.0.0.1:8083")


async def test_a_connector_that_no_worker_has_started_is_unassigned(monkeypatch: pytest.MonkeyPatch) -> None:
    status = await answering(monkeypatch, 404).status("new")
    assert status == {"connector": {"state": "UNASSIGNED"}}


async def test_another_refusal_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServiceRefused, match="No status found"):
        await answering(monkeypatch, 409).status("new")
