"""Authenticates requests: by cookie, by password, by an OpenID provider; or not at all, on loopback."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from ottla.console.access.login import log_in
from ottla.console.access.login_attempts import VALID_S, LoginAttempts
from ottla.console.access.oidc import OidcError
from ottla.console.access.roles import ADMIN, Role
from ottla.console.access.sessions import COOKIE, Session
from ottla.console.table import UserError
from ottla.http.app import Request, Response
from ottla.http.errors import HttpError
from ottla.http.login_queue import LoginQueue

if TYPE_CHECKING:
    from ottla.console.console import Console
    from ottla.console.context import Context

ANONYMOUS = "anonymous"
FAILURE_PAUSE_S = 0.5
ROLES_COME_FROM = {
    "broker": "Describe of the cluster with Create makes an operator; with Alter or AlterConfigs, an admin.",
    "oidc": "Roles come from a claim of the OpenID provider.",
}
MAX_LOGINS = 8
"""Tried at once, each with the pause after a failure: a flood of guesses gets no more tries than this."""
LOGIN_COOKIE, TO_COOKIE = "ottla_login", "ottla_login_to"
"""Bind a login at the OpenID provider to the browser that began it, and to the page that it was begun for."""
ASKED_AT_ONCE = 2
"""Requests to the provider; they wait in threads, which pages need too."""


class Gate:
    """The user of a request, and their role."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.needs_login = console.options.login != "none"
        self._programs: dict[bytes, Session] = {}
        self._attempts = LoginAttempts(console.clock)
        self._logins = LoginQueue(MAX_LOGINS)
        self._asking = asyncio.Semaphore(ASKED_AT_ONCE)
        self._anonymous: Session | None = None

    def check(self, ctx: Context, role: Role, *, is_change: bool = False) -> None:
        """Raise UserError unless the person has a role."""
        if is_change and self.console.options.is_read_only:
            raise UserError("This console is read-only.", "It was started with --read-only.", 403)
        if ctx.role < role:
            what = f"This needs the role {role.label}; you are {ctx.role.label}."
            raise UserError(what, ROLES_COME_FROM.get(self.console.options.login, ""), 403)

    async def session(self, request: Request) -> tuple[Session | None, Response | None]:
        """Return the session of a browser; None if it must log in first."""
        found = self._known(request)
        if found is None and request.headers.get("authorization"):
            return await self.program(request), None
        if found is None and not self.needs_login:
            found = self.console.sessions.begin(ANONYMOUS, ADMIN)
        return found, None

    def _known(self, request: Request) -> Session | None:
        """Return the session of a cookie; what an open page asks by itself keeps it from no time-out."""
        is_by_itself = request.headers.get("x-background") == "true" or request.headers.get(
            "accept", ""
        ).startswith("text/event-stream")
        return self.console.sessions.find(token_of(request), is_use=not is_by_itself)

    async def program(self, request: Request) -> Session:
        """Return the session of a program: by its cookie, by HTTP basic authentication, or anonymous."""
        found = self._known(request)
        if found is not None:
            return found
        given = request.headers.get("authorization", "")
        if given.lower().startswith("basic "):
            return await self._by_password(request, given)
        if self.needs_login:
            raise UserError("Log in first: HTTP basic authentication with a user of the broker.", status=401)
        if self._anonymous is None or self.console.sessions.find(self._anonymous.token) is None:
            self._anonymous = self.console.sessions.begin(ANONYMOUS, ADMIN)
        return self._anonymous

    async def _by_password(self, request: Request, given: str) -> Session:
        digest = hashlib.sha256(given.encode()).digest()
        known = self._programs.get(digest)
        if known is not None and self.console.sessions.find(known.token) is not None:
            return known
        try:
            user, colon, password = base64.b64decode(given[6:]).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            colon = ""
        if not colon:
            raise UserError("The authorization header cannot be read.", status=400)
        session = await self.log_in(request, user, password)
        tokens = {each.token for each in self.console.sessions}
        self._programs = {key: each for key, each in self._programs.items() if each.token in tokens}
        self._programs[digest] = session
        return session

    async def log_in(self, request: Request, user: str, password: str) -> Session:
        """Return a new session of a user of the brokers; UserError if no cluster accepts them."""
        if self.console.options.login != "broker":
            raise UserError("There is no login by password here.", status=403)
        async with self._logins.slot(request.host):
            return await self._log_in(request, user, password)

    async def _log_in(self, request: Request, user: str, password: str) -> Session:
        failure: UserError | None = None
        session = None
        for options in self.console.options.clusters:
            try:
                live, role = await log_in(options, user, password)
            except UserError as error:
                failure = failure or error
                continue
            if session is None:
                session = self.console.sessions.begin(user, role)
            session.clusters[options.name] = live
            session.roles[options.name] = role
        self._note(request, user, "Log in", None if session else str(failure))
        if session is None:
            await asyncio.sleep(FAILURE_PAUSE_S)  # guessing shall take its time
            raise failure or UserError("There is no cluster.")
        return session

    async def to_provider(self, request: Request) -> Response:
        """Send a person to the OpenID provider."""
        if self.console.oidc is None:
            raise HttpError(404)
        attempt = self._attempts.begin()
        try:
            async with self._asking:
                url = await asyncio.to_thread(self.console.oidc.start, self._back(request), attempt)
        except OidcError as error:
            raise HttpError(503, 503, str(error)) from None
        kept = self._set_cookie(LOGIN_COOKIE, attempt.state, f"; Max-Age={VALID_S}")
        to = self._set_cookie(TO_COOKIE, quote(request.query.get("to", ""), safe=""), f"; Max-Age={VALID_S}")
        return Response(b"", 302, "text/html", ((b"location", url.encode()), kept, to))

    async def from_provider(self, request: Request) -> Response:
        """Complete the login of a user whom the OpenID provider redirects back."""
        cookies = cookies_of(request)
        attempt = self._attempts.find(request.query.get("state", ""), cookies.get(LOGIN_COOKIE, ""))
        if self.console.oidc is None or attempt is None:
            raise HttpError(400, 400, "This login was not begun here, or is too old: log in again")
        try:
            async with self._asking:
                user, role = await asyncio.to_thread(
                    self.console.oidc.finish, request.query.get("code", ""), self._back(request), attempt
                )
        except OidcError as error:
            self._note(request, "-", "Log in", str(error))
            raise HttpError(401, 401, f"The login failed: {error}") from None
        self._note(request, user, "Log in", None)
        session = self.console.sessions.begin(user, role)
        to = inside(unquote(cookies.get(TO_COOKIE, "")))
        used = [self._set_cookie(name, "", "; Max-Age=0") for name in (LOGIN_COOKIE, TO_COOKIE)]
        headers = ((b"location", to.encode()), self.cookie(request, session), *used)
        return Response(b"", 303, "text/html", headers)

    def clusters_of(self, session: Session | None) -> list[str]:
        """Return the clusters that a person may know of: none before the login."""
        names = list(self.console.clusters)
        if not self.needs_login or (session is not None and self.console.options.login != "broker"):
            return names
        return [] if session is None else [each for each in names if each in session.clusters]

    def is_new(self, request: Request, session: Session) -> bool:
        """Return whether the browser does not know its session yet."""
        return token_of(request) != session.token

    def cookie(self, request: Request, session: Session) -> tuple[bytes, bytes]:
        """Return the header that gives a browser its session."""
        return self._set_cookie(_cookie_of(request), session.token)

    def _set_cookie(self, name: str, value: str, more: str = "") -> tuple[bytes, bytes]:
        secure = "; Secure" if self.console.options.tls is not None else ""
        text = f"{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{more}"
        return b"set-cookie", text.encode()

    def _back(self, request: Request) -> str:
        scheme = "http" if self.console.options.tls is None else "https"
        return f"{scheme}://{request.headers.get('host', '')}/login/oidc/back"

    def _note(self, request: Request, user: str, action: str, error: str | None) -> None:
        self.console.audit.add(
            user=user, client=request.client, cluster="-", action=action, target="", fields={}, error=error
        )


def token_of(request: Request) -> str | None:
    """Return the token of the session that a browser says it has."""
    return cookies_of(request).get(_cookie_of(request))


def _cookie_of(request: Request) -> str:
    """Return the name of the session's cookie: browsers send cookies to all ports of a host, so that without
    the port in its name, two consoles on one machine would end each other's sessions.
    """
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() else COOKIE


def cookies_of(request: Request) -> dict[str, str]:
    """Return the cookies of a request."""
    try:
        return {name: each.value for name, each in SimpleCookie(request.headers.get("cookie", "")).items()}
    except CookieError:
        return {}


def inside(to: str) -> str:
    """Return where to go after a login: a page of this console and no other.

    Browsers leave tabs and line ends out of an address: `/ TAB /example.org` is another site.
    """
    is_inside = to.startswith("/") and not to.startswith(("//", "/\\"))
    return to if is_inside and to.isascii() and to.isprintable() else "/"
