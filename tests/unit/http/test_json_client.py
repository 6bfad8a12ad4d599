"""Requests in JSON: whom credentials are sent to, and what errors say."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

from ottla.http.json_client import HttpRefused, HttpUnavailable, JsonClient, NotJson, path_of, without_user


class Service(NamedTuple):
    """A service, and the requests that it got: path and authorization."""

    port: int
    asked: list[tuple[str, str | None]]


@pytest.fixture
def service() -> Iterator[Service]:
    answers = {
        "/json": (200, b'{"a": 1}', {}),
        "/nothing": (204, b"", {}),
        "/text": (200, b"hello", {}),
        "/refused": (409, b'{"error_code": 40901}', {}),
        "/gateway": (502, b"<html>", {}),
        "/moved": (302, b"", {"Location": "/json"}),
    }
    asked: list[tuple[str, str | None]] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("authorization")))
            status, body, headers = answers[self.path]
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield Service(server.server_port, asked)
        server.shutdown()
        thread.join()


def test_answers_are_json_or_nothing(service: Service) -> None:
    client = JsonClient(f"http://127.0.0.1:{service.port}")
    assert client.ask("GET", "/json") == {"a": 1}
    assert client.ask("GET", "/nothing") is None
    with pytest.raises(NotJson):
        client.ask("GET", "/text")


def test_errors_carry_what_the_service_said(service: Service) -> None:
    client = JsonClient(f"http://127.0.0.1:{service.port}")
    with pytest.raises(HttpRefused) as refused:
        client.ask("GET", "/refused")
    assert (refused.value.status, refused.value.body) == (409, {"error_code": 40901})
    with pytest.raises(HttpRefused) as refused:
        client.ask("GET", "/gateway")
    assert (refused.value.status, refused.value.body) == (502, None)
    with pytest.raises(HttpUnavailable, match="refused"):
        JsonClient("http://127.0.0.1:1").ask("GET", "/")


def test_credentials_come_from_the_url_or_the_arguments_and_follow_no_redirect(service: Service) -> None:
    client = JsonClient(f"http://me:s%40cret@127.0.0.1:{service.port}/")
    assert client.url == f"http://127.0.0.1:{service.port}"
    with pytest.raises(HttpRefused) as refused:
        client.ask("GET", "/moved")
    assert refused.value.status == 302
    tokens = iter(["one", "two"])
    with_token = JsonClient(client.url, bearer_token=lambda: next(tokens))
    with_token.ask("GET", "/json")
    with_token.ask("GET", "/json")
    assert service.asked == [
        ("/moved", "Basic bWU6c0BjcmV0"),
        ("/json", "Bearer one"),
        ("/json", "Bearer two"),
    ]


def test_a_proxy_is_not_asked_for_services_of_this_machine(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert JsonClient(f"http://127.0.0.1:{service.port}").ask("GET", "/json") == {"a": 1}


def test_files_are_no_services(tmp_path: Path) -> None:
    """Who may name a registry for an exporter may not read files of this machine."""
    (tmp_path / "secrets.json").write_text('{"password": "hunter2"}')
    for end in ("", "#", "?"):
        with pytest.raises(HttpUnavailable, match="unknown url type"):
            JsonClient(f"file://{tmp_path}/secrets.json{end}").ask("GET", "/subjects")


def test_names_in_paths_and_users_in_urls() -> None:
    assert path_of("subjects", "a/b", deleted=True, x=None, y=False, tag=["p", "q"]) == (
        "/subjects/a%2Fb?deleted=true&tag=p&tag=q"
    )
    assert without_user("http://h:1/p/") == ("http://h:1/p", None)
    assert without_user(" https://u@h ") == ("https://h", ("u", ""))
