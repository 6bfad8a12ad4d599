"""Beside Apache Kafka: gives requests that change something to the elected process."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from urllib.error import HTTPError, URLError
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

from ottla.http.app import Request, Response
from ottla.registry import errors
from ottla.registry.election import Election
from ottla.registry.rest.requests import V1_JSON

log = logging.getLogger(__name__)

FORWARDED = "x-forward"
TIMEOUT_S = 30
PAUSE_S = 0.2
_FAILED = "Error while forwarding the request to the leader {}"
_PASSED_ON = ("accept", "content-type", "authorization")

Handler = Callable[[Request], Awaitable[Response]]


def changes(request: Request) -> bool:
    """Return whether a request may change schemas, configs, modes, keys or exporters."""
    if request.method in ("PUT", "DELETE"):
        return True
    if request.method != "POST":
        return False
    first = request.segments[:1]
    return first in (["dek-registry"], ["associations"], ["associations:batchMutate"], ["exporters"]) or (
        first == ["subjects"] and len(request.segments) > 2
    )


class Forwarder:
    """Answers requests here, or has the elected process answer them."""

    def __init__(self, election: Election, tls: ssl.SSLContext | None = None) -> None:
        self._election = election
        self._tls = tls

    async def __call__(self, request: Request, handler: Handler) -> Response:
        """Answer a request."""
        if not changes(request):
            return await handler(request)
        deadline = asyncio.get_running_loop().time() + TIMEOUT_S
        while True:
            url = await self._leader()
            if url == self._election.url:
                return await handler(request)
            if FORWARDED in request.headers:
                raise errors.no_leader()  # each takes the other for the elected one: soon they do not
            try:
                return await asyncio.to_thread(_forward, url, request, self._tls)
            except ConnectionRefusedError:  # it has stopped, and another will be elected
                if asyncio.get_running_loop().time() > deadline:
                    raise errors.forwarding_failed(_FAILED.format(url)) from None
                await asyncio.sleep(PAUSE_S)

    async def _leader(self) -> str:
        """Return the URL of the elected process; wait briefly for an election."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while self._election.leader_url is None:
                    self._election.changed.clear()
                    await self._election.changed.wait()
        except TimeoutError:
            raise errors.no_leader() from None
        return self._election.leader_url


def _forward(url: str, request: Request, tls: ssl.SSLContext | None) -> Response:
    headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
    headers[FORWARDED] = "true"
    data = request.body if request.method != "DELETE" else None
    outgoing = UrlRequest(url + request.target, data, headers, method=request.method)
    try:
        with urlopen(outgoing, timeout=TIMEOUT_S, context=tls) as answer:
            return Response(answer.read(), answer.status, answer.headers.get("content-type", V1_JSON))
    except HTTPError as error:
        with error:
            return Response(error.read(), error.code, error.headers.get("content-type", V1_JSON))
    except (URLError, OSError) as error:
        if isinstance(getattr(error, "reason", error), ConnectionRefusedError):
            raise ConnectionRefusedError(url) from None
        log.warning("%s could not be given a request: %s", url, error)
        raise errors.forwarding_failed(_FAILED.format(url)) from None
