"""Serves a request: authenticate, authorize, run the view or action, answer in HTML or JSON."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote

from ottla.console.access.gate import Gate, cookies_of, inside, token_of
from ottla.console.access.sessions import Session
from ottla.console.assets import Assets
from ottla.console.console import Console
from ottla.console.context import Context, page_url
from ottla.console.metrics import ConsoleMetrics
from ottla.console.openapi import describe
from ottla.console.options import BROKER_LOGIN
from ottla.console.problems import EXPECTED, as_user_error
from ottla.console.render import render
from ottla.console.table import Action, Download, Form, Outcome, Section, Stream, UserError, View
from ottla.console.views import SECTIONS
from ottla.http.app import HttpApp, Request, Response, json_response
from ottla.http.errors import HttpError
from ottla.http.origins import own_hosts
from ottla.http.routing import Handler, Routes

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


log = logging.getLogger(__name__)

HTML = "text/html; charset=utf-8"
NO_STORE = (b"cache-control", b"no-store")
THEMES = ("light", "dark")
MAX_STREAMS = 100
"""Events, searches and downloads of one person at a time; the server has a thousand connections."""


class ConsoleApp:
    """Serves the console; `http` is the ASGI application."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.gate = Gate(console)
        self.assets = Assets()
        self._streams: Counter[str] = Counter()
        """By who opened them."""
        self._metrics = ConsoleMetrics(console, self._streams.total)
        routes = Routes()
        self._add_fixed(routes)
        for section in SECTIONS:
            self._add_section(routes, section)
        self.http = HttpApp(routes, console.options.limits, server="ottla-console")
        self.http.hosts = own_hosts(console.options.host, *console.options.allowed_hosts)
        self.http.hosts_hint = ": allow the name with --allow-host"
        self.http.around = self._around
        self.http.observe = self._metrics.requests.observe
        self.http.error_page = self._error_page

    def _add_fixed(self, routes: Routes) -> None:
        routes.add("GET", "/", self._home)
        routes.add("GET", "/static/{file}", self.assets.serve)
        routes.add("GET", "/static/vendor/{file}", self.assets.serve)
        routes.add("GET", "/healthz", _healthy)
        routes.add("GET", "/metrics", self._metrics.scrape)
        routes.add("GET", "/api/openapi.json", self._openapi)
        routes.add("GET", "/login", self._login_page)
        routes.add("POST", "/login", self._log_in)
        routes.add("POST", "/logout", self._log_out)
        routes.add("GET", "/login/oidc", self.gate.to_provider)
        routes.add("GET", "/login/oidc/back", self.gate.from_provider)

    def _add_section(self, routes: Routes, section: Section) -> None:
        for view in section.views:
            if view.template:
                routes.add("GET", f"/c/{{cluster}}{view.path}", self._page(section, view))
            routes.add("GET", f"/api/clusters/{{cluster}}{view.path}", self._data(view))
        for action in section.actions:
            routes.add("POST", f"/c/{{cluster}}{action.path}", self._form(section, action))
            routes.add("POST", f"/api/clusters/{{cluster}}{action.path}", self._change(action))
        for stream in section.streams:
            handler = self._stream(stream)
            routes.add("GET", f"/c/{{cluster}}{stream.path}", handler)
            routes.add("GET", f"/api/clusters/{{cluster}}{stream.path}", handler)

    # Every request.

    async def _around(self, request: Request, handler: Handler) -> Response:
        """Add the security headers to what is answered."""
        await self.console.tidy()
        response: Response = await handler(request)
        response.headers = (*response.headers, *SECURITY_HEADERS)
        return response

    def _error_page(self, request: Request | None, error: HttpError) -> Response:
        shown = UserError(error.message, status=error.status)
        if request is None or request.segments[:1] == ["api"]:
            response = _json_error(shown)
        else:
            session = self.console.sessions.find(token_of(request))
            response = self._problem(request, shown, session)
        response.headers = (*response.headers, *SECURITY_HEADERS)
        return response

    # Pages.

    def _page(self, section: Section, view: View) -> Handler:
        async def handle(request: Request) -> Response:
            session, answer = await self.gate.session(request)
            if session is None:
                return answer or self._to_login(request)
            status = 200
            try:
                ctx = self._context(request, session)
                self.gate.check(ctx, view.role)
                try:
                    data = await view.read(ctx)
                except EXPECTED as error:
                    shown = as_user_error(error)
                    if shown.status != 400 or view.correct is None:
                        raise
                    data, status = await view.correct(ctx, str(shown)), 400
            except EXPECTED as error:
                return self._problem(request, as_user_error(error), session, section)
            template = view.fragment if view.fragment and _wants_part(request) else view.template
            return self._html(request, session, section, template, data, status)

        return handle

    def _form(self, section: Section, action: Action) -> Handler:
        async def handle(request: Request) -> Response:
            session, answer = await self.gate.session(request)
            if session is None:
                return answer or self._to_login(request)
            form = Form(_form_fields(request))
            if not session.fits(form.text("_csrf", "") or request.headers.get("x-csrf-token")):
                raise HttpError(403, 403, "The form is too old, or not from this console: reload the page")
            try:
                ctx = self._context(request, session)
                outcome = await self._run(ctx, action, form)
            except EXPECTED as error:
                return self._problem(request, as_user_error(error), session, section)
            if outcome.page is not None:
                return self._html(request, session, section, outcome.template, outcome.page)
            session.flash = outcome.message
            if request.headers.get("hx-request") == "true":
                return Response(b"", 200, HTML, ((b"hx-redirect", outcome.to.encode()), NO_STORE))
            return _redirect(outcome.to)

        return handle

    async def _run(self, ctx: Context, action: Action, form: Form) -> Outcome:
        """Run an action if the person may, and keep it in the audit log."""
        self.gate.check(ctx, action.role, is_change=action.is_change)
        error: str | None = None
        try:
            outcome = await action.run(ctx, form)
        except BaseException as failure:  # also a request that took too long, or whose client has gone
            error = str(failure) or type(failure).__name__
            raise
        finally:
            if action.is_change:
                ctx.live.changed()
                self.console.clusters[ctx.live.name].changed()
                self.console.audit.add(
                    user=ctx.session.user,
                    client=ctx.request.client,
                    cluster=ctx.live.name,
                    action=action.summary,
                    shows_value=action.shows_value,
                    target="/".join(each for name, each in ctx.params.items() if name != "cluster"),
                    fields={**ctx.request.query, **form.values},
                    error=error,
                )
        return outcome

    def _context(self, request: Request, session: Session) -> Context:
        name = request.params["cluster"]
        shared = self.console.clusters.get(name)
        if shared is None:
            raise UserError(f"There is no cluster {name!r}.", status=404)
        live = session.clusters.get(name, shared)
        if self.console.options.login == BROKER_LOGIN and name not in session.clusters:
            raise UserError("You are not logged in to this cluster.", status=403)
        if shared.problem is not None:
            problem = str(shared.problem).rstrip(".")
            hint = f"{problem[:1].upper()}{problem[1:]}. This page recovers by itself."
            raise UserError(f"No broker of {name} answers.", hint, 503)
        return Context(self.console, request, session, live)

    def _html(
        self,
        request: Request,
        session: Session,
        section: Section | None,
        template: str,
        data: dict[str, Any],
        status: int = 200,
    ) -> Response:
        values = {**self._frame(request, session, section), **data}
        session.flash = session.flash if _wants_part(request) else ""
        headers: tuple[tuple[bytes, bytes], ...] = (NO_STORE, (b"vary", b"hx-request"))
        if self.gate.is_new(request, session):
            headers = (*headers, self.gate.cookie(request, session))
        return Response(render(template, **values).encode(), status, HTML, headers)

    def _frame(self, request: Request, session: Session | None, section: Section | None) -> dict[str, Any]:
        """Return what every page shows around its content."""
        console = self.console
        clusters = self.gate.clusters_of(session)
        cluster = request.params.get("cluster", "")
        if cluster not in clusters:
            cluster = next(iter(clusters), "")
        role = None if session is None else session.role_in(cluster)
        theme = cookies_of(request).get("theme", "")
        return {
            "cluster": cluster,
            "clusters": clusters,
            "sections": SECTIONS if clusters else (),
            "section": section,
            "session": session,
            "role": role,
            "can_operate": role is not None and role >= 2 and not console.options.is_read_only,
            "can_admin": role is not None and role >= 3 and not console.options.is_read_only,
            "is_read_only": console.options.is_read_only,
            "has_login": self.gate.needs_login,
            "csrf": "" if session is None else session.csrf,
            "flash": "" if session is None else session.flash,
            "theme": theme if theme in THEMES else "",
            "assets": self.assets.version,
            "target": request.target,
            "url": lambda *segments, **query: page_url(cluster, *segments, **query),
        }

    def _problem(
        self, request: Request, error: UserError, session: Session | None, section: Section | None = None
    ) -> Response:
        """Return an error as a page, or as the part of one that htmx puts beside the form."""
        is_part = request.headers.get("hx-request") == "true"
        template = "parts/error.html" if is_part else "error.html"
        values = {**self._frame(request, session, section), "error": error}
        return Response(render(template, **values).encode(), error.status, HTML, (NO_STORE,))

    # Data.

    def _data(self, view: View) -> Handler:
        async def handle(request: Request) -> Response:
            return await self._api(request, lambda ctx: self._read(ctx, view))

        return handle

    async def _read(self, ctx: Context, view: View) -> Response:
        self.gate.check(ctx, view.role)
        return json_response(_plain(await view.read(ctx)))

    def _change(self, action: Action) -> Handler:
        async def run(ctx: Context) -> Response:
            body = ctx.request.json() if ctx.request.body else {}
            if not isinstance(body, dict):
                raise UserError("The body is a JSON object.", status=400)
            outcome = await self._run(ctx, action, Form(body))
            return json_response({"message": outcome.message, **_plain(outcome.data)})

        async def handle(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip()
            if kind != "application/json":
                return _json_error(UserError("The body must be application/json.", status=415))
            return await self._api(request, run)

        return handle

    async def _api(self, request: Request, run: Callable[[Context], Awaitable[Response]]) -> Response:
        try:
            session = await self.gate.program(request)
            return await run(self._context(request, session))
        except EXPECTED as error:
            return _json_error(as_user_error(error))

    def _stream(self, stream: Stream) -> Handler:
        async def handle(request: Request) -> Response:
            session, answer = await self.gate.session(request)
            if session is None:
                return answer or Response(b"", 401)
            try:
                ctx = self._context(request, session)
                self.gate.check(ctx, stream.role)
                self._check_room(session)
                download = await stream.open(ctx)
                download = replace(download, chunks=self._counted(session, download.chunks))
                if self.gate.needs_login and download.name is None:  # a file may be completed
                    download = replace(download, chunks=self._while_open(session, download.chunks))
                return _streamed(download)
            except EXPECTED as error:
                shown = as_user_error(error)
                wants_page = request.segments[:1] != ["api"]
                if not wants_page or request.headers.get("accept", "").startswith("text/event-stream"):
                    return _json_error(shown)
                return self._problem(request, shown, session)

        return handle

    def _check_room(self, session: Session) -> None:
        """Raise UserError if a person has so many streams that others could have none."""
        if self._streams[self._owner(session)] >= MAX_STREAMS:
            hint = "Close some pages, or wait until exports and searches have ended."
            raise UserError(f"There are {MAX_STREAMS} open streams of yours.", hint, 429)

    def _owner(self, session: Session) -> str:
        return session.user if self.gate.needs_login else session.token

    async def _counted(self, session: Session, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        owner = self._owner(session)
        self._streams[owner] += 1
        try:
            async with aclosing(chunks) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event
        finally:
            self._streams[owner] -= 1
            if not self._streams[owner]:
                del self._streams[owner]

    async def _while_open(self, session: Session, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield events until the session ends: a page that is open at a logout gets nothing more."""
        async with aclosing(chunks) as events:  # type: ignore[type-var]
            async for event in events:
                if not self.console.sessions.is_open(session):
                    return
                yield event

    # Fixed pages.

    async def _home(self, request: Request) -> Response:
        clusters = self.gate.clusters_of(self.console.sessions.find(token_of(request)))
        return _redirect(page_url(clusters[0]) if clusters else "/login", 302)

    async def _openapi(self, request: Request) -> Response:
        return json_response(describe(SECTIONS))

    def _to_login(self, request: Request) -> Response:
        if request.headers.get("hx-request") == "true":
            return Response(b"", 200, HTML, ((b"hx-redirect", b"/login"),))
        return _redirect(f"/login?to={quote(request.target.partition('?')[0])}", 302)

    async def _login_page(self, request: Request) -> Response:
        return self._login_form(request, None)

    def _login_form(self, request: Request, error: UserError | None) -> Response:
        values = {
            **self._frame(request, None, None),
            "error": error,
            "to": inside(request.query.get("to", "/")),
            "by_provider": self.console.oidc is not None,
        }
        status = 200 if error is None else error.status
        return Response(render("login.html", **values).encode(), status, HTML, (NO_STORE,))

    async def _log_in(self, request: Request) -> Response:
        form = Form(_form_fields(request))
        try:
            session = await self.gate.log_in(request, form.text("user"), form.text("password"))
        except EXPECTED as error:
            return self._login_form(request, as_user_error(error))
        response = _redirect(inside(form.text("to", "/")))
        response.headers = (*response.headers, self.gate.cookie(request, session))
        return response

    async def _log_out(self, request: Request) -> Response:
        session, _ = await self.gate.session(request)
        if session is not None and session.fits(Form(_form_fields(request)).text("_csrf", "")):
            await self.console.end(session)
        return _redirect("/login")


async def _healthy(request: Request) -> Response:
    return json_response({"status": "ok"})


def _wants_part(request: Request) -> bool:
    """Return whether htmx puts the answer into a page; for the back button it takes a whole page."""
    headers = request.headers
    return headers.get("hx-request") == "true" and headers.get("hx-history-restore-request") != "true"


def _form_fields(request: Request) -> dict[str, Any]:
    """Return the fields of a form; those that occur several times as lists.

    Browsers send the ends of lines as CR LF, whatever was typed or filled in.
    """
    fields: dict[str, Any] = {}
    try:
        pairs = parse_qsl(request.body.decode(), keep_blank_values=True, max_num_fields=10_000)
    except (UnicodeDecodeError, ValueError):
        raise HttpError(400, 400, "The form cannot be read") from None
    for name, value in ((name, value.replace("\r\n", "\n")) for name, value in pairs):
        if name in fields:
            before = fields[name]
            fields[name] = [*before, value] if isinstance(before, list) else [before, value]
        else:
            fields[name] = value
    return fields


def _streamed(download: Download) -> Response:
    headers = [NO_STORE, (b"x-accel-buffering", b"no")]
    if download.name is not None:
        name = "".join(each if each.isalnum() or each in "._-" else "_" for each in download.name)
        headers.append((b"content-disposition", f'attachment; filename="{name}"'.encode("ascii", "replace")))
    return Response(b"", 200, download.content_type, tuple(headers), stream=download.chunks)


def _redirect(to: str, status: int = 303) -> Response:
    return Response(b"", status, HTML, ((b"location", to.encode()), NO_STORE))


def _json_error(error: UserError) -> Response:
    body = {"error_code": error.status, "message": str(error), "hint": error.hint}
    return json_response(body, error.status)


def _plain(data: dict[str, Any]) -> Any:
    """Return data as JSON knows it."""
    return json.loads(json.dumps(data, default=_as_plain))


def _as_plain(value: Any) -> Any:
    if hasattr(value, "as_json"):
        return value.as_json()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)
