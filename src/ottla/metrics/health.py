"""Whether a broker is alive, and whether it is ready: pure answers to /healthz and /readyz."""

from __future__ import annotations

import json

from ottla.metrics.http_server import Response
from ottla.metrics.view import BrokerView

JSON = "application/json"
STARTING, RUNNING, STOPPING = "starting", "running", "stopping"


def health(view: BrokerView | None, phase: str, loop_lag_s: float) -> Response:
    """Answer that the broker lives, which whoever reads this knows, and whether it can write."""
    offline = None if view is None else view.services.log_directory.storage.offline_reason
    said = {
        "healthy": offline is None,
        "phase": phase,
        "log_directory": "online" if offline is None else f"offline: {offline}",
        "event_loop_lag_seconds": round(loop_lag_s, 6),
    }
    return _answer(said, offline is None)


def readiness(view: BrokerView | None, phase: str) -> Response:
    """Answer whether clients should be sent here; if not, why not."""
    reasons = why_not_ready(view, phase)
    return _answer({"ready": not reasons, "phase": phase, "reasons": reasons}, not reasons)


def why_not_ready(view: BrokerView | None, phase: str) -> list[str]:
    """Return what stands against sending clients here."""
    if view is None or phase != RUNNING:
        return [f"the broker is {phase}"]
    services = view.services
    reasons = []
    if not services.controller.is_registered:
        reasons.append("the broker has lost its session and is not part of the cluster at the moment")
    if services.log_directory.storage.offline_reason is not None:
        reasons.append(f"the log directory is offline: {services.log_directory.storage.offline_reason}")
    for what, count in (
        ("consumer groups", services.groups.loading_count),
        ("transactions", services.transactions.loading_count),
    ):
        if count:
            reasons.append(f"{count} partitions with the state of {what} are still being read")
    return reasons


def _answer(said: dict[str, object], is_well: bool) -> Response:
    return Response(f"{json.dumps(said)}\n".encode(), JSON, 200 if is_well else 503)
