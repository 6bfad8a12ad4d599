"""The responses of /healthz (liveness) and /readyz (readiness), from the broker's findings."""

from __future__ import annotations

import json

from ottla.api.support.health_facts import ONLINE, quick_facts, write_facts
from ottla.api.support.health_findings import BrokerFinding, findings, is_ready
from ottla.metrics.http_server import Response
from ottla.metrics.view import BrokerView

JSON = "application/json"
STARTING, RUNNING, STOPPING = "starting", "running", "stopping"


def health(view: BrokerView | None, phase: str, loop_lag_s: float) -> Response:
    """Return the liveness response: 200 while every log directory can be written, otherwise 503."""
    disks = [] if view is None else quick_facts(view.services).disks
    state = next((each.state for each in disks if each.state != ONLINE), ONLINE)
    body = {
        "healthy": state == ONLINE,
        "phase": phase,
        "log_directory": state,
        "log_directories": {each.path: each.state for each in disks},
        "event_loop_lag_seconds": round(loop_lag_s, 6),
    }
    return _answer(body, state == ONLINE)


async def readiness(view: BrokerView | None, phase: str) -> Response:
    """Return the readiness response: 200 if clients may be routed here, otherwise 503 with the reasons."""
    if view is None or phase != RUNNING:
        reasons = [f"the broker is {phase}"]
        return _answer({"ready": False, "phase": phase, "reasons": reasons}, False)
    facts = await write_facts(view.services)
    found = findings(facts)
    body = {
        "ready": is_ready(found),
        "phase": phase,
        "reasons": [each.what for each in found if each.blocks_ready],
        "metadata_age_seconds": round(facts.metadata.age_ms / 1000, 3),
        "session": facts.metadata.has_session,
        "metadata_store": "connected" if not facts.metadata.silent_ms else "not connected",
        "stalled_partitions": facts.partitions.stalled.count,
        "under_min_isr_partitions": facts.partitions.under_min_isr.count,
        "findings": [each.as_json() for each in found],
    }
    return _answer(body, is_ready(found))


def is_ready_now(phase: str, found: list[BrokerFinding]) -> bool:
    """Return whether /readyz returns 200."""
    return phase == RUNNING and is_ready(found)


def _answer(body: dict[str, object], is_healthy: bool) -> Response:
    return Response(f"{json.dumps(body)}\n".encode(), JSON, 200 if is_healthy else 503)
