"""Connect workers as the CLI asks them."""

from __future__ import annotations

from typing import Any

from ottla.cli.support.http_client import HttpService
from ottla.cli.support.problems import Problem
from ottla.http.json_client import path_of

__all__ = ["WORKER", "ask", "path_of", "url_option"]

NOT_FOUND, CONFLICT = 404, 409


def _refusal(status: int, body: Any) -> Problem:
    message = str(body["message"])
    hints = ["list them:  ottla connect list"] if status == NOT_FOUND else []
    if status == CONFLICT and "already exists" in message:
        hints = ["change it with:  ottla connect create NAME --replace ..."]
    if "STOPPED state" in message:
        hints = ["stop it with:  ottla connect stop NAME"]
    return Problem(f"{message} ({status})", *hints)


WORKER = HttpService(
    "Connect worker",
    "http://127.0.0.1:8083",
    "OTTLA_CONNECT",
    "ottla connect serve",
    _refusal,
    "A worker; Kafka Connect's, too.",
    timeout_s=120,
)
url_option = WORKER.options
ask = WORKER.ask
