"""Sessions of logged-in users: their expiry, and the token against forged requests."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.common.clock import Clock
from ottla.common.ids import new_nonce
from ottla.console.access.roles import ADMIN, Role
from ottla.console.clusters.live import LiveCluster

COOKIE = "ottla_session"
MAX_SESSIONS = 1_000


@dataclass(slots=True)
class Session:
    """One person at one browser."""

    user: str
    role: Role
    token: str
    csrf: str
    began_ms: int
    used_ms: int
    clusters: dict[str, LiveCluster] = field(default_factory=dict)
    """The clusters as this person: with their own credentials. Empty: with the console's."""
    roles: dict[str, Role] = field(default_factory=dict)
    flash: str = ""
    """What the last action did; shown once."""

    def role_in(self, cluster: str) -> Role:
        """Return the role in one cluster."""
        return self.roles.get(cluster, self.role)

    def fits(self, token: str | None) -> bool:
        """Return whether a request carries the token of this session."""
        return token is not None and hmac.compare_digest(token.encode(), self.csrf.encode())


class Sessions:
    """All sessions; those that are not used, or too old, end."""

    def __init__(self, clock: Clock, *, lifetime_s: float, idle_s: float) -> None:
        self._clock = clock
        self._lifetime_ms = lifetime_s * 1000
        self._idle_ms = idle_s * 1000
        self._sessions: dict[str, Session] = {}
        self._displaced: list[Session] = []

    def begin(self, user: str, role: Role = ADMIN) -> Session:
        """Return a new session; the oldest one ends if there are too many."""
        now = self._clock.wall_ms()
        session = Session(user, role, new_nonce(), new_nonce(), now, now)
        if len(self._sessions) >= MAX_SESSIONS:
            self._displaced.append(self._sessions.pop(self._to_displace(user)))
        self._sessions[session.token] = session
        return session

    def _to_displace(self, user: str) -> str:
        """Return the oldest session: of the same user, so that no user can end the sessions of others."""
        own = (token for token, each in self._sessions.items() if each.user == user)
        return next(own, None) or next(iter(self._sessions))

    def find(self, token: str | None, *, is_use: bool = True) -> Session | None:
        """Return the session of a cookie, unless it has ended; a use keeps it from timing out."""
        session = self._sessions.get(token or "")
        if session is None or not self.is_open(session):
            return None
        if is_use:
            session.used_ms = self._clock.wall_ms()
        return session

    def is_open(self, session: Session) -> bool:
        """Return whether a session has neither been ended nor run out; that is not a use of it."""
        return session.token in self._sessions and not self._has_run_out(session)

    def _has_run_out(self, session: Session) -> bool:
        now = self._clock.wall_ms()
        return now - session.began_ms > self._lifetime_ms or now - session.used_ms > self._idle_ms

    def end(self, session: Session) -> None:
        """End a session."""
        self._sessions.pop(session.token, None)

    def ended(self) -> Iterator[Session]:
        """Remove and yield the sessions whose time is over."""
        displaced, self._displaced = self._displaced, []
        yield from displaced
        for session in list(self._sessions.values()):
            if self._has_run_out(session):
                self.end(session)
                yield session

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))
