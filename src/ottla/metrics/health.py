"""The responses of /healthz (liveness) and /readyz (readiness). Pure code."""

from __future__ import annotations

import json

from ottla.metrics.http_server import Response
from ottla.metrics.view import BrokerView

JSON = "application/json"
STARTING, RUNNING, STOPPING = "starting", "running", "stopping"


def health(view: BrokerView | None, phase: str, loop_lag_s: float) -> Response:
    """Return the liveness response: 200 while the log directory can be written."""
    offline = None if view is None else view.services.log_directory.storage.offline_reason
    body = {
        "healthy": offline is None,
        "phase": phase,
        "log_directory": "online" if offline is None else f"offline: {offline}",
        "event_loop_lag_seconds": round(loop_lag_s, 6),
    }
    return _answer(body, offline is None)


def readiness(view: BrokerView | None, phase: str) -> Response:
    """Return the readiness response: 200 if clients may be routed here, otherwise 503 with the reasons."""
    reasons = not_ready_reasons(view, phase)
    return _answer({"ready": not reasons, "phase": phase, "reasons": reasons}, not reasons)


def not_ready_reasons(view: BrokerView | None, phase: str) -> list[str]:
    """Return the reasons why the broker is not ready."""
    if view is None or phase != RUNNING:
        return [f"the broker is {phase}"]
    services = view.services
    reasons = []
    if not services.controller.is_registered:
        reasons.append("the broker has lost its session and is fenced")
    if services.log_directory.storage.offline_reason is not None:
        reasons.append(f"the log directory is offline: {services.log_directory.storage.offline_reason}")
    for what, count in (
        ("consumer groups", services.groups.loading_count),
        ("transactions", services.transactions.loading_count),
    ):
        if count:
            reasons.append(f"{count} partitions of {what} are still loading")
    return reasons


def _answer(body: dict[str, object], is_healthy: bool) -> Response:
    return Response(f"{json.dumps(body)}\n".encode(), JSON, 200 if is_healthy else 503)
