"""Send requests to schema registries, in threads of their own, over connections that stay open.

There are few requests: a schema is asked for once. So they take no part of the event loop, and the standard
library's client is enough.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlsplit

THREADS = 4
MAX_ANSWER_BYTES = 16 * 1024 * 1024
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryUnavailable(Exception):
    """No registry answers, or none lets us ask."""


class RegistryHttp:
    """Asks the first of several registries that answers."""

    def __init__(
        self, urls: Sequence[str], timeout_s: float, user_info: str | None = None, ca_file: str | None = None
    ) -> None:
        self._urls = [urlsplit(each.rstrip("/")) for each in urls]
        self._timeout_s = timeout_s
        self._headers = {"accept": MEDIA_TYPE}
        if user_info is not None:
            self._headers["authorization"] = "Basic " + base64.b64encode(user_info.encode()).decode()
        self._ca_file = ca_file
        self._threads = ThreadPoolExecutor(THREADS, "ottla-schemas")
        self._local = threading.local()

    async def get(self, path: str) -> tuple[int, Any]:
        """Return the status, below 500, and the JSON value of an answer."""
        return await self._run("GET", path, None)

    async def post(self, path: str, body: bytes) -> tuple[int, Any]:
        """Send bytes; return the status, below 500, and the JSON value of the answer."""
        return await self._run("POST", path, body)

    def stop(self) -> None:
        """Take no more requests."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, method: str, path: str, body: bytes | None) -> tuple[int, Any]:
        loop = asyncio.get_running_loop()
        waiting = loop.run_in_executor(self._threads, self._ask, method, path, body)
        try:
            return await asyncio.wait_for(waiting, self._timeout_s)
        except TimeoutError:
            raise RegistryUnavailable(f"no answer within {self._timeout_s:g} s") from None

    def _ask(self, method: str, path: str, body: bytes | None) -> tuple[int, Any]:
        reasons = []
        for url in list(self._urls):
            try:
                found = self._send(url, method, path, body)
            except (OSError, HTTPException, ValueError) as error:
                reasons.append(f"{url.scheme}://{url.netloc.rpartition('@')[2]}: {error}")
                continue
            if url is not self._urls[0]:
                self._urls = [url, *(each for each in self._urls if each is not url)]
            return found
        raise RegistryUnavailable("; ".join(reasons))

    def _send(self, url: SplitResult, method: str, path: str, body: bytes | None) -> tuple[int, Any]:
        """Send a request; an open connection that has gone is replaced once."""
        headers: Mapping[str, str] = self._headers
        if body is not None:
            headers = {**headers, "content-type": "application/octet-stream"}
        if not hasattr(self._local, "connections"):
            self._local.connections = {}
        connections: dict[SplitResult, HTTPConnection] = self._local.connections
        kept = connections.pop(url, None)
        for connection in (kept, None) if kept is not None else (None,):
            used = connection or self._connect(url)
            try:
                used.request(method, url.path + path, body, dict(headers))
                response = used.getresponse()
                data = response.read(MAX_ANSWER_BYTES)
            except (OSError, HTTPException):
                used.close()
                if connection is None:
                    raise
                continue
            if response.will_close or len(data) == MAX_ANSWER_BYTES:
                used.close()
            else:
                connections[url] = used
            if response.status >= 500 or response.status in (401, 403):
                raise HTTPException(f"HTTP {response.status} {response.reason}")
            return response.status, json.loads(data)
        raise AssertionError("unreachable")

    def _connect(self, url: SplitResult) -> HTTPConnection:
        host = url.hostname or "localhost"
        if url.scheme == "https":
            context = ssl.create_default_context(cafile=self._ca_file)
            return HTTPSConnection(host, url.port, timeout=self._timeout_s, context=context)
        return HTTPConnection(host, url.port, timeout=self._timeout_s)
