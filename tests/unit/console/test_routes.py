"""What holds for every route of the console: roles, the audit log, forged requests, the API's description."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from starlette.datastructures import Headers, QueryParams

from ottla.client.client_options import ClientOptions
from ottla.common.ids import new_nonce
from ottla.console.access.roles import ADMIN, OPERATOR, VIEWER, Role
from ottla.console.access.sessions import COOKIE, Session
from ottla.console.app import ConsoleApp
from ottla.console.clusters.live import LiveCluster
from ottla.console.console import Console
from ottla.console.openapi import describe
from ottla.console.options import BROKER_LOGIN, ClusterOptions, ConsoleOptions
from ottla.console.table import Action, Form, Outcome, Section, Stream, UserError, View
from ottla.console.views import SECTIONS
from ottla.http.app import Request, Response

VIEWS = [each for section in SECTIONS for each in section.views]
ACTIONS = [each for section in SECTIONS for each in section.actions]
STREAMS = [each for section in SECTIONS for each in section.streams]
BY_OPERATORS = {
    "/topics", "/topics/{topic}/delete", "/topics/{topic}/partitions", "/topics/{topic}/configs",
    "/topics/{topic}/delete-records", "/topics/{topic}/messages", "/topics/{topic}/copy",
    "/topics/{topic}/messages/{partition}/{offset}/resend",
    "/groups/{group}/reset", "/groups/{group}/delete", "/groups/{group}/remove-member",
    "/groups/{group}/delete-offsets",
    "/transactions/{id}/abort", "/hanging-transactions/abort",
    "/schemas", "/schemas/{subject}/restore", "/schemas/{subject}/delete",
    "/connectors", "/connectors/{connector}/control", "/connectors/{connector}/offsets",
    "/connectors/{connector}/reset-offsets", "/connectors/{connector}/delete",
    "/pipelines/{pipeline}/stop", "/pipelines/{pipeline}/restart", "/pipelines/{pipeline}/pause",
    "/pipelines/{pipeline}/resume", "/brokers/elect-leaders",
}  # fmt: skip
CHANGE_NOTHING = {
    "/check-schema", "/check-connector", "/groups/{group}/preview-reset", "/reassignments/preview",
    "/topics/{topic}/check-expression",
}  # fmt: skip


class Served:
    """An app whose views and actions do nothing, and sessions of each role."""

    def __init__(self, **options: Any) -> None:
        cluster = ClusterOptions("one", ClientOptions(bootstrap_servers="127.0.0.1:1"))
        self.console = Console(ConsoleOptions((cluster,), login=BROKER_LOGIN, **options))
        self.app = ConsoleApp(self.console)

    def session(self, role: Role) -> Session:
        session = self.console.sessions.begin(f"a-{role.label}", role)
        session.clusters["one"] = LiveCluster(self.console.options.clusters[0])
        session.roles["one"] = role
        return session

    async def ask(self, handler: Any, session: Session | None, path: str, **more: Any) -> Response:
        """Send a request to a handler, as a browser with the session's cookie."""
        names = re.findall(r"{(\w+)}", path)
        headers = {"host": "localhost", **more.pop("headers", {})}
        if session is not None:
            headers["cookie"] = f"{COOKIE}={session.token}"
        request = Request("POST", [], Headers(headers), QueryParams(""), **more)
        request.params = {"cluster": "one", **dict.fromkeys(names, "a")}
        found = await handler(request)
        assert isinstance(found, Response)
        return found

    async def post(self, action: Action, session: Session | None) -> Response:
        """Send an action as a program does."""
        kind = {"content-type": "application/json"}
        return await self.ask(self.app._change(action), session, action.path, body=b"{}", headers=kind)


def doing_nothing(action: Action, error: Exception | None = None) -> Action:
    async def run(ctx: Any, form: Form) -> Outcome:
        if error is not None:
            raise error
        return Outcome("Done.", "/")

    return Action(action.path, action.summary, run, action.role, is_change=action.is_change)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda each: each.path)
async def test_a_change_needs_its_role_and_is_in_the_audit_log(action: Action) -> None:
    served, action = Served(), doing_nothing(action)
    assert (await served.post(action, None)).status == 401
    for role in (VIEWER, OPERATOR, ADMIN):
        before = len(served.console.audit.lines())
        answer = await served.post(action, served.session(role))
        assert answer.status == (200 if role >= action.role else 403)
        lines = served.console.audit.lines()[: len(served.console.audit.lines()) - before]
        is_kept = role >= action.role and action.is_change
        assert [(each["user"], each["action"], each["error"]) for each in lines] == (
            [(f"a-{role.label}", action.summary, None)] if is_kept else []
        )


def test_only_what_is_named_here_is_for_operators_and_changes_nothing() -> None:
    assert all(each.role >= OPERATOR for each in ACTIONS)
    changes = [each for each in ACTIONS if each.is_change]
    assert {each.path for each in changes if each.role is OPERATOR} <= BY_OPERATORS
    assert {each.path for each in ACTIONS if not each.is_change} <= CHANGE_NOTHING


@pytest.mark.parametrize("action", [each for each in ACTIONS if each.is_change], ids=lambda each: each.path)
async def test_a_console_that_is_read_only_refuses_it(action: Action) -> None:
    served = Served(is_read_only=True)
    assert (await served.post(doing_nothing(action), served.session(ADMIN))).status == 403
    assert served.console.audit.lines() == []


@pytest.mark.parametrize("error", [UserError("It is not there."), RuntimeError("a defect"), TimeoutError()])
async def test_a_change_that_fails_is_in_the_audit_log_with_its_error(error: Exception) -> None:
    served = Served()
    action = doing_nothing(ACTIONS[0], error)
    with suppress(RuntimeError, TimeoutError):
        await served.post(action, served.session(ADMIN))
    assert [each["error"] for each in served.console.audit.lines()] == [str(error) or type(error).__name__]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda each: each.path)
async def test_a_form_needs_the_token_of_its_session(action: Action) -> None:
    served, action = Served(), doing_nothing(action)
    session, other = served.session(ADMIN), served.session(ADMIN)
    handler = served.app._form(Section("x", "X", "", ""), action)
    for token in ("", new_nonce(), other.csrf):
        with pytest.raises(Exception, match="not from this console"):
            await served.ask(handler, session, action.path, body=f"_csrf={token}".encode())
    answer = await served.ask(handler, session, action.path, body=f"_csrf={session.csrf}".encode())
    assert answer.status == 303
    assert (await served.ask(handler, None, action.path)).status == 302, "to the login"


@pytest.mark.parametrize("read", [*VIEWS, *STREAMS], ids=lambda each: each.path)
async def test_what_is_read_needs_a_login_and_its_role(read: View | Stream) -> None:
    async def nothing(*_: Any) -> Any:
        return {}

    served = Served()
    if isinstance(read, View):
        handler = served.app._data(View(read.path, read.summary, read.template, nothing, read.role))
    else:
        handler = served.app._stream(Stream(read.path, read.summary, _stream_of_nothing, read.role))
    assert (await served.ask(handler, None, read.path)).status == 401
    for role in (VIEWER, OPERATOR, ADMIN):
        answer = await served.ask(handler, served.session(role), read.path)
        assert answer.status == (200 if role >= read.role else 403)


async def _stream_of_nothing(*_: Any) -> Any:
    from ottla.console.table import Download

    async def chunks() -> AsyncIterator[bytes]:
        yield b""

    return Download("text/plain", None, chunks())


def test_every_route_of_the_api_is_described_with_its_role() -> None:
    served = Served()
    described = describe(SECTIONS)["paths"]
    routes = {each for each in served.app.http.routes.all() if each[1].startswith("/api/clusters/")}
    assert routes == {
        (method.upper(), path) for path, operations in described.items() for method in operations
    }
    for declared in (*VIEWS, *ACTIONS, *STREAMS):
        method = "post" if isinstance(declared, Action) else "get"
        operation = described["/api/clusters/{cluster}" + declared.path][method]
        assert operation["x-role"] == declared.role.label
        names = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert names == {"cluster", *re.findall(r"{(\w+)}", declared.path)}
    json.dumps(described)
