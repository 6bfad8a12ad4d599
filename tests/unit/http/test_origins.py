"""Requests that pages of other sites have browsers send."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.http.app import HttpApp, Request, Response
from ottla.http.origins import hosts_without_login, own_hosts
from ottla.http.routing import Routes

LOCAL = {"host": "localhost:8081"}


def status_of(app: HttpApp, method: str, headers: dict[str, str]) -> int:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": "/x",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"])


def made_app(hosts: frozenset[str] | None) -> HttpApp:
    async def handler(request: Request) -> Response:
        return Response(b"done")

    routes = Routes()
    for method in ("GET", "POST", "DELETE"):
        routes.add(method, "/x", handler)
    app = HttpApp(routes)
    app.hosts = hosts
    app.fast_path = lambda scope: Response(b"kept") if scope["method"] == "GET" else None
    return app


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", LOCAL, 200),
        ("POST", {**LOCAL, "origin": "http://localhost:8081", "sec-fetch-site": "same-origin"}, 200),
        ("POST", {**LOCAL, "origin": "http://evil.example"}, 403),
        ("POST", {**LOCAL, "origin": "http://localhost:3000", "sec-fetch-site": "same-site"}, 403),
        ("POST", {**LOCAL, "origin": "null"}, 403),
        ("DELETE", {**LOCAL, "sec-fetch-site": "cross-site"}, 403),
        ("HEAD", {**LOCAL, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ("HEAD", {**LOCAL, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        ("GET", {"host": "evil.example:8081"}, 421),
        ("POST", {"host": "evil.example:8081", "origin": "http://evil.example:8081"}, 421),
        ("GET", {"host": "Registry.example:8081"}, 200),
        ("GET", {"host": "[::1]:8081"}, 200),
        ("GET", {}, 200),
    ],
)
def test_what_pages_of_other_sites_can_send_is_refused(
    method: str, headers: dict[str, str], status: int
) -> None:
    assert status_of(made_app(own_hosts("registry.Example")), method, headers) == status


def test_names_are_known_on_loopback_only() -> None:
    assert hosts_without_login("0.0.0.0") is None
    assert hosts_without_login("127.0.0.1", ["", "::5"]) == {"localhost", "127.0.0.1", "[::1]", "[::5]"}
    assert status_of(made_app(None), "GET", {"host": "registry.example"}) == 200
    assert status_of(made_app(None), "POST", {"host": "a.example", "origin": "http://b.example"}) == 403
