"""What the console refuses before a view or an action runs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from starlette.datastructures import Headers, QueryParams

from ottla.client.client_options import ClientOptions
from ottla.common.clock import SystemClock
from ottla.console.access.login import log_in
from ottla.console.access.oidc import Oidc, OidcOptions, Started
from ottla.console.access.roles import ADMIN
from ottla.console.access.sessions import COOKIE
from ottla.console.app import ConsoleApp, _inside
from ottla.console.clusters.live import LiveCluster
from ottla.console.console import Console
from ottla.console.context import Context
from ottla.console.options import BROKER_LOGIN, ClusterOptions, ConsoleOptions
from ottla.console.table import Download, Stream, UserError
from ottla.http.app import Request
from ottla.http.errors import HttpError


def app_of(*names: str) -> ConsoleApp:
    client = ClientOptions(bootstrap_servers="127.0.0.1:1")
    clusters = tuple(ClusterOptions(name, client) for name in names)
    return ConsoleApp(Console(ConsoleOptions(clusters, login=BROKER_LOGIN)))


def request_to(*segments: str, query: str = "") -> Request:
    headers = Headers({"host": "localhost"})
    return Request("GET", list(segments), headers, QueryParams(query), params={"cluster": segments[1]})


async def test_a_login_to_one_cluster_opens_no_other() -> None:
    app = app_of("one", "two")
    session = app.console.sessions.begin("alice", ADMIN)
    own = LiveCluster(app.console.options.clusters[0])
    session.clusters["one"], session.roles["one"] = own, ADMIN
    assert app._context(request_to("c", "one"), session).live is own
    with pytest.raises(UserError, match="not logged in to this cluster"):
        app._context(request_to("c", "two"), session)


async def test_a_stream_ends_with_its_session() -> None:
    app = app_of("one")
    session = app.console.sessions.begin("alice", ADMIN)
    session.clusters["one"] = LiveCluster(app.console.options.clusters[0])

    async def chunks() -> AsyncIterator[bytes]:
        while True:
            yield b"secret"

    async def opened(ctx: Context) -> Download:
        return Download("text/event-stream", None, chunks())

    request = request_to("c", "one")
    request.headers = Headers({"host": "localhost", "cookie": f"{COOKIE}={session.token}"})
    answer = await app._stream(Stream("/events", "", opened))(request)
    assert await anext(answer.stream) == b"secret"
    await app.console.end(session)
    assert [each async for each in answer.stream] == []


async def test_a_password_of_megabytes_is_refused_before_it_is_prepared() -> None:
    options = app_of("one").console.options.clusters[0]
    with pytest.raises(UserError) as refused:
        await log_in(options, "alice", "x" * 1_000_000)
    assert refused.value.status == 401


@pytest.mark.parametrize(
    "to", ["//evil.org", "/\\evil.org", "/\t/evil.org", "/\r\nx: y", "https://evil.org", ""]
)
def test_a_login_leads_to_no_other_site(to: str) -> None:
    assert _inside(to) == "/"
    assert _inside("/c/one/topics/a%2Fb") == "/c/one/topics/a%2Fb"


def test_the_way_to_the_login_page_takes_the_path_as_it_was_sent() -> None:
    request = request_to("c", "one", "topics", "a\r\nx: y")
    request.target = "/c/one/topics/a%0D%0Ax:%20y?q=1"
    location = dict(app_of("one")._to_login(request).headers)[b"location"]
    assert location == b"/login?to=/c/one/topics/a%250D%250Ax%3A%2520y"


async def test_a_login_at_the_provider_is_completed_in_the_browser_that_began_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = app_of("one")
    oidc = Oidc(OidcOptions("https://provider.example.org", "console"), SystemClock())
    app.console.oidc = oidc
    monkeypatch.setattr(oidc, "start", lambda back: Started("https://provider.example.org/?", "s1", "n", "v"))
    monkeypatch.setattr(oidc, "finish", lambda *given: ("mallory", ADMIN))
    begun = await app.gate.to_provider(request_to("login", "oidc"))
    cookie = dict(begun.headers)[b"set-cookie"].decode().partition(";")[0]
    back = request_to("login", "oidc", "back", query="code=c&state=s1")
    with pytest.raises(HttpError, match="not begun here"):
        await app.gate.from_provider(back)
    back.headers = Headers({"host": "localhost", "cookie": cookie})
    assert (await app.gate.from_provider(back)).status == 303
