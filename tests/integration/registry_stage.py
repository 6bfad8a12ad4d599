"""A registry process's insides, in a thread of the test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.integration.server_thread import ServerThread

from ottla.client.client_options import ClientOptions
from ottla.registry.server import RegistryOptions, RegistryServer


class Answer(NamedTuple):
    """What a registry answered."""

    status: int
    body: Any
    content_type: str


class RunningRegistry(ServerThread):
    """A registry at a port of its own; `async with` is for the loop in the thread."""

    def __init__(self, bootstrap: str, client: Mapping[str, Any] | None = None, **options: Any) -> None:
        options = {"port": 0, "workers": 1, **options}
        self.server = RegistryServer(
            RegistryOptions(ClientOptions.of(bootstrap_servers=bootstrap, **(client or {})), **options)
        )
        super().__init__(self.server, "registry")

    @property
    def url(self) -> str:
        return self.server.url

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request, as it is written, and return the answer."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(self.url + path, data, named, method=method)
        if data is not None and "content-type" not in named:
            request.add_header("content-type", "application/vnd.schemaregistry.v1+json")
        try:
            with urlopen(request, timeout=30) as response:
                return _answer(response.status, response)
        except HTTPError as error:
            with error:
                return _answer(error.code, error)


def _answer(status: int, response: Any) -> Answer:
    raw = response.read()
    content_type = response.headers.get("content-type", "")
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        body = raw.decode()
    return Answer(status, body, content_type)
