"""Schema registries as the CLI asks them."""

from __future__ import annotations

from typing import Any

from ottla.cli.support.http_client import HttpService
from ottla.cli.support.options import REGISTRY_URL, REGISTRY_VARIABLE
from ottla.cli.support.problems import Problem
from ottla.http.json_client import path_of

__all__ = ["DEFAULT_URL", "REGISTRY", "URL_VARIABLE", "RegistryProblem", "ask", "path_of", "url_option"]

DEFAULT_URL, URL_VARIABLE = REGISTRY_URL, REGISTRY_VARIABLE

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


class RegistryProblem(Problem):
    """What a registry refused."""

    def __init__(self, code: int, message: str) -> None:
        hint = HINTS.get(code)
        super().__init__(f"{message} ({code})", *([hint] if hint else []))
        self.code = code


def _refusal(_: int, body: Any) -> Problem:
    return RegistryProblem(int(body["error_code"]), str(body["message"]))


REGISTRY = HttpService(
    "schema registry",
    DEFAULT_URL,
    URL_VARIABLE,
    "ottla registry serve",
    _refusal,
    "The registry.",
    "application/vnd.schemaregistry.v1+json",
)
url_option = REGISTRY.options
ask = REGISTRY.ask
