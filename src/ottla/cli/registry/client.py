"""Asks a schema registry over HTTP, and turns what goes wrong into words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import click

from ottla.cli.support.problems import Problem

DEFAULT_URL = "http://127.0.0.1:8081"
URL_VARIABLE = "OTTLA_REGISTRY"
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S = 60

HINTS = {
    40401: "list them:  ottla registry subject list",
    40402: "list them:  ottla registry subject describe SUBJECT",
    40404: "delete it for good:  ottla registry subject delete SUBJECT --permanent",
    40405: "delete it softly first, without --permanent",
    40407: "delete it softly first, without --permanent",
    40901: "see why before you register:  ottla registry compat check SUBJECT --file FILE",
    42205: "look at the mode:  ottla registry mode get SUBJECT",
    42206: "delete what refers to it first",
}

Command = TypeVar("Command", bound=Callable[..., Any])


class RegistryProblem(Problem):
    """What a registry refused."""

    def __init__(self, code: int, message: str) -> None:
        hint = HINTS.get(code)
        super().__init__(f"{message} ({code})", *([hint] if hint else []))
        self.code = code


def url_option(command: Command) -> Command:
    """Add `--url`: which registry to ask."""
    option = click.option(
        "--url",
        metavar="URL",
        envvar=URL_VARIABLE,
        default=DEFAULT_URL,
        help=f"The registry.  [default: ${URL_VARIABLE} or {DEFAULT_URL}]",
    )
    return option(command)


def path_of(*segments: object, **query: object) -> str:
    """Return a path whose names are encoded, with the parameters that are not None or False."""
    path = "".join(f"/{quote(str(each), safe='')}" for each in segments)
    given = {
        name: "true" if value is True else value
        for name, value in query.items()
        if value is not None and value is not False
    }
    return path + (f"?{urlencode(given)}" if given else "")


def ask(url: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Send one request and return the JSON value of the answer; raise Problem if it is an error."""
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"--url: {url!r} does not begin with http:// or https://")
    data = None if body is None else json.dumps(body).encode()
    request = Request(url.rstrip("/") + path, data, {"accept": MEDIA_TYPE}, method=method)
    if data is not None:
        request.add_header("content-type", MEDIA_TYPE)
    try:
        with urlopen(request, timeout=TIMEOUT_S) as response:
            content = response.read()
    except HTTPError as error:
        with error:
            raise _refused(url, error.code, error.read()) from None
    except (URLError, OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise Problem(
            f"no registry at {url}: {reason}",
            "start one with:  ottla registry serve",
            f"name another one with --url URL or {URL_VARIABLE}",
        ) from None
    try:
        return json.loads(content) if content else None
    except ValueError:
        raise Problem(f"what answers at {url} is not a schema registry") from None


def _refused(url: str, status: int, content: bytes) -> Problem:
    try:
        body = json.loads(content)
        return RegistryProblem(int(body["error_code"]), str(body["message"]))
    except (ValueError, KeyError, TypeError):
        return Problem(f"what answers at {url} is not a schema registry (HTTP {status})")
