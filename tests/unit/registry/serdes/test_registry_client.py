"""What the registry client remembers, and for how long."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from ottla.common.clock import ManualClock
from ottla.registry.serdes import (
    RegistryClient,
    RegistryRefused,
    RegistryUnavailable,
    SerdeError,
    UnknownSchema,
)


class Scripted(RegistryClient):
    """Answers from a table, and counts."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__("http://127.0.0.1:1", clock=clock)
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        self.asked.append(path)
        found = self.answers.get(path, RegistryRefused(40403, "Schema not found"))
        if isinstance(found, Exception):
            raise found
        return found


def test_schemas_are_asked_for_once_and_the_latest_again_after_a_while() -> None:
    clock = ManualClock()
    client = Scripted(clock)
    client.answers = {
        "/schemas/ids/1": {"schema": '"int"'},
        "/subjects/t-value/versions/latest": {"schema": '"int"', "id": 1, "version": 1},
    }
    for _ in range(3):
        assert client.by_id(1).text == '"int"'
        assert client.latest("t-value").schema_id == 1
    assert len(client.asked) == 2
    clock.advance(301_000)
    client.by_id(1)
    client.latest("t-value")
    assert client.asked[2:] == ["/subjects/t-value/versions/latest"]


def test_an_unknown_id_is_asked_for_again_after_ten_seconds() -> None:
    clock = ManualClock()
    client = Scripted(clock)
    for _ in range(5):
        with pytest.raises(UnknownSchema, match="no schema with the id 9"):
            client.by_id(9)
    assert len(client.asked) == 1
    clock.advance(11_000)
    client.answers = {"/schemas/ids/9": {"schema": '"int"'}}
    assert client.by_id(9).text == '"int"'


def test_a_registry_that_is_away_is_not_remembered() -> None:
    client = Scripted(ManualClock())
    client.answers = {"/schemas/ids/1": RegistryUnavailable("away")}
    with pytest.raises(RegistryUnavailable):
        client.by_id(1)
    client.answers = {"/schemas/ids/1": {"schema": '"int"'}}
    assert client.by_id(1).text == '"int"'


def test_urls_are_checked_and_hide_their_password() -> None:
    with pytest.raises(SerdeError, match="begins with http://"):
        RegistryClient("localhost:8081")
    client = RegistryClient("https://me:s%40cret@host:1/sr/, http://other:2")
    assert client.urls == ["https://host:1/sr", "http://other:2"]


def test_credentials_are_not_carried_to_where_a_redirect_leads() -> None:
    class Redirects(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    asked: list[str] = []
    with HTTPServer(("127.0.0.1", 0), Redirects) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            client = RegistryClient(f"http://me:secret@127.0.0.1:{server.server_port}")
            with pytest.raises(RegistryUnavailable, match="HTTP 302"):
                client.by_id(1)
        finally:
            server.shutdown()
            thread.join()
    assert asked == ["/schemas/ids/1"]
