"""Brings a request to the worker that can answer it: the group's leader, or the owner of a task.

A password or a token is passed on with the request. A user with a certificate alone is named in a header,
which counts if it comes from a super user: so workers that show certificates must be super users.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Collection
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlencode
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

from ottla.connect.errors import conflict, internal
from ottla.connect.herder.herder import Herder
from ottla.connect.herder.requests import REBALANCING
from ottla.http.app import JSON, Request, Response
from ottla.security.principal import ANONYMOUS

log = logging.getLogger(__name__)

TIMEOUT_S = 90
STALE = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
ON_BEHALF_OF = "x-ottla-on-behalf-of"
_PASSED_ON = ("accept", "content-type", "authorization")


def for_others(
    authenticate: Callable[[Request], Awaitable[None]], super_users: Collection[str]
) -> Callable[[Request], Awaitable[None]]:
    """Return an authentication that lets super users act for those whose requests they pass on."""

    async def check(request: Request) -> None:
        await authenticate(request)
        named = request.headers.get(ON_BEHALF_OF)
        if named and request.principal in super_users:
            request.principal = unquote(named)

    return check


class Forwarder:
    """Has other workers answer requests."""

    def __init__(self, herder: Herder, tls: ssl.SSLContext | None = None) -> None:
        self._herder = herder
        self._tls = tls

    async def to_leader(self, request: Request) -> Response | None:
        """Have the leader answer; None if that is this worker."""
        if self._herder.is_leader:
            return None
        if self._herder.leader_url is None:
            raise conflict(REBALANCING)
        return await self.to_worker(request, self._herder.leader_url)

    async def to_worker(self, request: Request, url: str) -> Response:
        """Have another worker answer; a request is passed on twice at most."""
        hops = request.query.get("forward")
        if hops == "false" or url == self._herder.url:
            raise conflict(STALE)
        return await asyncio.to_thread(self._send, url, request, "true" if hops is None else "false")

    def _send(self, url: str, request: Request, marker: str) -> Response:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        headers.setdefault("content-type", JSON)
        if "authorization" not in headers and request.principal != ANONYMOUS:
            headers[ON_BEHALF_OF] = quote(request.principal, safe="")
        pairs = [(key, value) for key, value in request.query.multi_items() if key != "forward"]
        target = request.target.partition("?")[0] + "?" + urlencode([*pairs, ("forward", marker)])
        outgoing = UrlRequest(url + target, request.body or None, headers, method=request.method)
        try:
            with urlopen(outgoing, timeout=TIMEOUT_S, context=self._tls) as answer:
                more = answer.headers.get("location")
                found = Response(answer.read(), answer.status)
                if more:
                    found.headers = ((b"location", more.encode()),)
                return found
        except HTTPError as error:
            with error:
                return Response(error.read(), error.code)
        except (URLError, OSError) as error:
            log.warning("%s could not be given a request: %s", url, error)
            raise internal(f"IO Error trying to forward REST request: {error}") from None
