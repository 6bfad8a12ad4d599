"""What the console refuses before a view or an action runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.datastructures import Headers, QueryParams

from ottla.client.client_options import ClientOptions
from ottla.common.clock import SystemClock
from ottla.console.access import gate
from ottla.console.access.gate import MAX_LOGINS, inside, token_of
from ottla.console.access.login import log_in
from ottla.console.access.oidc import Oidc, OidcOptions
from ottla.console.access.roles import ADMIN
from ottla.console.access.sessions import COOKIE, Session
from ottla.console.app import MAX_STREAMS, ConsoleApp, _form_fields
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


async def test_one_person_cannot_take_all_connections() -> None:
    app = app_of("one")
    sessions = [app.console.sessions.begin(user, ADMIN) for user in ("alice", "alice", "bob")]
    for session in sessions:
        session.clusters["one"] = LiveCluster(app.console.options.clusters[0])

    async def opened(ctx: Context) -> Download:
        async def chunks() -> AsyncIterator[bytes]:
            while True:
                yield b"event"

        return Download("text/event-stream", None, chunks())

    async def status(session: Session) -> int:
        request = request_to("c", "one")
        request.headers = Headers({"host": "localhost", "cookie": f"{COOKIE}={session.token}"})
        answer = await app._stream(Stream("/events", "", opened))(request)
        if answer.stream is not None:
            await anext(answer.stream)
            streams.append(answer.stream)
        return answer.status

    streams: list[Any] = []
    assert {await status(sessions[each % 2]) for each in range(MAX_STREAMS)} == {200}
    assert await status(sessions[1]) == 429
    assert await status(sessions[2]) == 200
    await streams[0].aclose()
    assert await status(sessions[0]) == 200
    for each in streams:
        await each.aclose()
    assert not app._streams


async def test_a_password_of_megabytes_is_refused_before_it_is_prepared() -> None:
    options = app_of("one").console.options.clusters[0]
    with pytest.raises(UserError) as refused:
        await log_in(options, "alice", "x" * 1_000_000)
    assert refused.value.status == 401


@pytest.mark.parametrize(
    "to", ["//evil.org", "/\\evil.org", "/\t/evil.org", "/\r\nx: y", "https://evil.org", ""]
)
def test_a_login_leads_to_no_other_site(to: str) -> None:
    assert inside(to) == "/"
    assert inside("/c/one/topics/a%2Fb") == "/c/one/topics/a%2Fb"


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
    monkeypatch.setattr(oidc, "start", lambda back, attempt: f"https://provider.example.org/?{attempt.state}")
    monkeypatch.setattr(oidc, "finish", lambda *given: ("mallory", ADMIN))
    begun = await app.gate.to_provider(request_to("login", "oidc", query="to=/c/one/topics"))
    for _ in range(2_000):  # nobody can make it forgotten
        await app.gate.to_provider(request_to("login", "oidc"))
    cookie = "; ".join(
        value.decode().partition(";")[0] for name, value in begun.headers if name == b"set-cookie"
    )
    state = dict(begun.headers)[b"location"].decode().partition("?")[2]
    back = request_to("login", "oidc", "back", query=f"code=c&state={state}")
    with pytest.raises(HttpError, match="not begun here"):
        await app.gate.from_provider(back)
    back.headers = Headers({"host": "localhost", "cookie": cookie})
    answer = await app.gate.from_provider(back)
    assert (answer.status, dict(answer.headers)[b"location"]) == (303, b"/c/one/topics")


async def test_strangers_learn_no_names_of_clusters() -> None:
    app = app_of("secret-one", "secret-two")
    stranger = Request("GET", [], Headers({"host": "localhost"}), QueryParams(""), params={})
    answers = [
        await app._login_page(stranger),
        await app._home(stranger),
        app._error_page(stranger, HttpError(404)),
    ]
    for answer in answers:
        assert b"secret" not in answer.body
        assert not any(b"secret" in value for _, value in answer.headers)


async def test_metrics_count_requests_and_name_no_cluster() -> None:
    app = app_of("secret-one", "secret-two")
    assert app.http.observe is not None
    app.http.observe("GET", "/c/{cluster}/topics", 200, 0.25)
    app.http.observe("GET", "/c/{cluster}/topics", 200, 0.5)
    scrape = await app._metrics.scrape(Request("GET", ["metrics"], Headers({}), QueryParams(""), params={}))
    lines = scrape.body.decode().splitlines()
    topics = 'method="GET",path="/c/{cluster}/topics"'
    assert f'ottla_console_requests_total{{{topics},status="200"}} 2.0' in lines
    assert f"ottla_console_request_seconds_total{{{topics}}} 0.75" in lines
    assert 'ottla_console_clusters{reachable="true"} 2.0' in lines
    assert "ottla_console_streams 0.0" in lines
    assert "ottla_console_sessions 0.0" in lines
    assert b"secret" not in scrape.body


async def test_a_user_sees_the_clusters_that_they_are_logged_in_to() -> None:
    app = app_of("one", "secret-two")
    session = app.console.sessions.begin("alice", ADMIN)
    session.clusters["one"] = LiveCluster(app.console.options.clusters[0])
    known = Request(
        "GET", [], Headers({"host": "localhost", "cookie": f"{COOKIE}={session.token}"}), QueryParams("")
    )
    assert dict((await app._home(known)).headers)[b"location"] == b"/c/one"
    assert b"secret" not in app._error_page(known, HttpError(404)).body


def test_lines_of_a_form_end_as_they_were_typed() -> None:
    request = request_to("c", "one")
    request.body = b"value=a%0D%0Ab%0D%0A&partition=1&topic=x&topic=y"
    assert _form_fields(request) == {"value": "a\nb\n", "partition": "1", "topic": ["x", "y"]}


def cookie_named(cookie: tuple[bytes, bytes]) -> str:
    return cookie[1].decode().partition(";")[0]


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "[::1]:8080", "localhost", "console.example.org"])
def test_the_session_of_a_browser_is_found(host: str) -> None:
    app = app_of("one")
    session = app.console.sessions.begin("alice", ADMIN)
    request = request_to("c", "one")
    request.headers = Headers({"host": host})
    cookie = cookie_named(app.gate.cookie(request, session))
    request.headers = Headers({"host": host, "cookie": cookie})
    assert token_of(request) == session.token
    assert not app.gate.is_new(request, session)


async def test_two_consoles_on_one_machine_do_not_end_each_others_sessions() -> None:
    one, other = app_of("one"), app_of("one")
    jar: dict[str, str] = {}  # browsers keep cookies by host, whatever the port
    sessions = []
    for app, port in ((one, 8080), (other, 8090)):
        session = app.console.sessions.begin("alice", ADMIN)
        request = request_to("c", "one")
        request.headers = Headers({"host": f"127.0.0.1:{port}"})
        name, _, value = cookie_named(app.gate.cookie(request, session)).partition("=")
        jar[name] = value
        sessions.append(session)
    cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
    for app, port, session in ((one, 8080, sessions[0]), (other, 8090, sessions[1])):
        request = request_to("c", "one")
        request.headers = Headers({"host": f"127.0.0.1:{port}", "cookie": cookies})
        assert (await app.gate.session(request))[0] is session


async def test_a_flood_of_guesses_gets_few_tries_and_delays_others_by_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = app_of("one")
    tried: list[str] = []
    at_once = [0, 0]

    async def log_in(options: ClusterOptions, user: str, password: str) -> Any:
        tried.append(user)
        at_once[0] += 1
        at_once[1] = max(at_once)
        await asyncio.sleep(0)
        at_once[0] -= 1
        if password == "right":
            return LiveCluster(options), ADMIN
        raise UserError("no", status=401)

    monkeypatch.setattr(gate, "log_in", log_in)
    monkeypatch.setattr(gate, "FAILURE_PAUSE_S", 0)

    def attempt(client: str, user: str, password: str) -> asyncio.Task[Session]:
        request = request_to("login", "one")
        request.client = client
        return asyncio.create_task(app.gate.log_in(request, user, password))

    guesses = [attempt(f"192.0.2.1:{port}", "chief", "wrong") for port in range(1_000, 1_200)]
    await asyncio.sleep(0)
    alice = await attempt("192.0.2.2:1000", "alice", "right")
    assert alice.user == "alice"
    assert tried.index("alice") <= 2 * MAX_LOGINS
    refused = await asyncio.gather(*guesses, return_exceptions=True)
    assert all(isinstance(each, UserError) for each in refused)
    assert at_once[1] <= MAX_LOGINS
