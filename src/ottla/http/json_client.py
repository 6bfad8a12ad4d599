"""Send JSON requests to a service over HTTP: to a registry, to a Connect worker.

Credentials are for one address: those of the URL or the constructor are sent to it, and redirects, which
could carry them to another host, are refused. Proxies of the environment are used, but not for this machine.
Calls wait; async code runs them in a thread.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from ottla.http.origins import is_loopback

MAX_ANSWER_BYTES = 64 * 1024 * 1024

BearerToken = str | Callable[[], str]


class HttpUnavailable(Exception):
    """No service answered; `reason` says why."""

    def __init__(self, reason: object) -> None:
        super().__init__(str(reason))
        self.reason = reason


class HttpRefused(Exception):
    """The service answered with an error: its status, and the JSON value of the answer or None."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.body = body


class NotJson(Exception):
    """What answered does not speak JSON."""


class JsonClient:
    """Sends requests to one service; safe for threads."""

    def __init__(
        self,
        url: str,
        *,
        basic_auth: tuple[str, str] | None = None,
        bearer_token: BearerToken | None = None,
        ssl_context: ssl.SSLContext | None = None,
        media_type: str = "application/json",
        timeout_s: float = 10.0,
    ) -> None:
        """Take a URL, which may name a user: `https://alice:secret@host:8081`."""
        self.url, user = without_user(url)
        self._auth = basic_auth or user
        self._token = bearer_token
        self._media_type = media_type
        self._timeout_s = timeout_s
        is_here = is_loopback(urlsplit(self.url).hostname or "")
        self._opener = OpenerDirector()  # not urllib's default one, which also opens file: and ftp:
        for handler in (
            ProxyHandler({} if is_here else None),
            HTTPHandler(),
            HTTPSHandler(context=ssl_context),
            HTTPErrorProcessor(),
            HTTPDefaultErrorHandler(),
            _NoRedirects(),
            UnknownHandler(),
        ):
            self._opener.add_handler(handler)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON value of the answer; raise HttpRefused, HttpUnavailable or NotJson."""
        headers = {"accept": self._media_type, **self._credentials()}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["content-type"] = self._media_type
        request = Request(self.url + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                content = response.read(MAX_ANSWER_BYTES)
        except HTTPError as error:
            with error:
                raise HttpRefused(error.code, _json_of(error)) from None
        except (URLError, OSError, HTTPException) as error:
            raise HttpUnavailable(getattr(error, "reason", error)) from None
        try:
            return json.loads(content) if content else None
        except (ValueError, RecursionError):
            raise NotJson(f"what answers at {self.url} does not speak JSON") from None

    def _credentials(self) -> dict[str, str]:
        if self._token is not None:
            token = self._token if isinstance(self._token, str) else self._token()
            return {"authorization": f"Bearer {token}"}
        if self._auth is not None:
            return {"authorization": "Basic " + base64.b64encode(":".join(self._auth).encode()).decode()}
        return {}


def path_of(*segments: object, **query: object) -> str:
    """Return a path whose names are encoded, with the parameters that are not None or False."""
    path = "".join(f"/{quote(str(each), safe='')}" for each in segments)
    given = [
        (name, "true" if each is True else each)
        for name, value in query.items()
        if value is not None and value is not False
        for each in (value if isinstance(value, list) else [value])
    ]
    return path + (f"?{urlencode(given)}" if given else "")


def without_user(url: str) -> tuple[str, tuple[str, str] | None]:
    """Return a URL without its user, and the user's name and password."""
    parts = urlsplit(url.strip())
    user = None if not parts.username else (unquote(parts.username), unquote(parts.password or ""))
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/"), user


def _json_of(error: HTTPError) -> Any:
    try:
        return json.loads(error.read(MAX_ANSWER_BYTES))
    except (ValueError, RecursionError, OSError):
        return None


class _NoRedirects(HTTPRedirectHandler):
    """Makes a redirect an error."""

    def redirect_request(self, *_: Any) -> None:
        """Return nothing: no second request is sent."""
