"""Ask a service over HTTP (a registry, a Connect worker), and turn errors into messages.

Credentials are given as curl takes them: in the URL, with `--user`, or as a client certificate.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from ottla.cli.support.problems import Problem
from ottla.http.json_client import HttpRefused, HttpUnavailable, JsonClient, NotJson
from ottla.wire.errors import reason_of

UNAUTHORIZED, FORBIDDEN = 401, 403

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class HttpService:
    """A kind of service: where it listens, how it is started, and what its refusals mean."""

    name: str
    default_url: str
    variable: str
    """The environment variable that names its URL."""
    started_by: str
    refusal: Callable[[int, Any], Problem]
    """Makes a problem of a status and the JSON value of an answer; KeyError, TypeError or ValueError if the
    answer is not one of this service."""
    url_help: str
    media_type: str = "application/json"
    timeout_s: float = 60

    def options(self, command: Command) -> Command:
        """Add `--url`, which the command takes, and the credentials, which `ask` takes from the context."""
        for option in (
            click.option(
                "--cert", metavar="FILE", expose_value=False, callback=_keep,
                help="A client certificate with its key (PEM).",
            ),
            click.option(
                "--cacert", metavar="FILE", expose_value=False, callback=_keep,
                help="Who signs the server's certificate (PEM).",
            ),
            click.option(
                "--token", metavar="TEXT", envvar=f"{self.variable}_TOKEN",
                expose_value=False, callback=_keep, help="Log in with a bearer token.",
            ),
            click.option(
                "-u", "--user", metavar="NAME[:PASSWORD]", envvar=f"{self.variable}_USER",
                expose_value=False, callback=_keep, help="Log in; without a password it is asked for.",
            ),
            click.option(
                "--url", metavar="URL", envvar=self.variable, default=self.default_url,
                help=f"{self.url_help}  [default: ${self.variable} or {self.default_url}]",
            ),
        ):  # fmt: skip
            command = option(command)
        return command

    def ask(self, url: str, method: str, path: str, body: object = None) -> Any:
        """Send one request and return the JSON value of the answer; raise Problem if it is an error."""
        if not url.startswith(("http://", "https://")):
            raise click.UsageError(f"--url: {url!r} does not begin with http:// or https://")
        client = JsonClient(
            url,
            basic_auth=_user(),
            bearer_token=_given("token"),
            ssl_context=_tls() if url.startswith("https://") else None,
            media_type=self.media_type,
            timeout_s=self.timeout_s,
        )
        try:
            return client.ask(method, path, body)
        except HttpRefused as error:
            raise self._refused(client.url, error) from None
        except HttpUnavailable as error:
            raise self._unreachable(client.url, error.reason) from None
        except NotJson:
            raise Problem(f"what answers at {client.url} is not a {self.name}") from None

    def _refused(self, url: str, error: HttpRefused) -> Problem:
        if error.status == UNAUTHORIZED:
            return Problem(f"{url} refused the login", "name a user:  --user NAME")
        try:
            problem = self.refusal(error.status, error.body)
        except (ValueError, KeyError, TypeError):
            return Problem(f"what answers at {url} is not a {self.name} (HTTP {error.status})")
        if error.status == FORBIDDEN:
            problem.hints = (*problem.hints, "see what you may do:  ottla acl list")
        return problem

    def _unreachable(self, url: str, reason: object) -> Problem:
        if isinstance(reason, ssl.SSLError):
            return Problem(f"{url}: TLS failed: {reason}", "name who signs its certificate:  --cacert FILE")
        return Problem(
            f"no {self.name} at {url}: {reason_of(reason) if isinstance(reason, Exception) else reason}",
            f"start one with:  {self.started_by}",
            f"name another one with --url URL or {self.variable}",
        )


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if param.name == "user" and value and ":" not in value:
        value = f"{value}:{click.prompt('password', hide_input=True, err=True)}"
    ctx.meta[f"ottla.http.{param.name}"] = value
    return value


def _given(name: str) -> str | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(f"ottla.http.{name}")


def _user() -> tuple[str, str] | None:
    given = _given("user")
    if given is None:
        return None
    name, _, password = given.partition(":")
    return name, password


def _tls() -> ssl.SSLContext:
    authority, certificate = _given("cacert"), _given("cert")
    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate is not None:
            context.load_cert_chain(certificate)
    except (OSError, ssl.SSLError) as error:
        raise Problem(f"--cacert {authority}, --cert {certificate}: cannot be used: {error}") from None
    return context
