"""Ask every broker how it is (DescribeBrokerHealth, an API of Ottla's own).

The brokers are asked at the same time, each with its own timeout: one that is dying does not hide the others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerUnreachable, ClientError
from ottla.common.clock import SystemClock
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.own_messages import DescribeBrokerHealthRequest, DescribeBrokerHealthResponse

TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """What one broker says of itself; or why it says nothing."""

    node_id: int
    address: str
    problem: str | None = None
    """Why there is no report."""
    report: dict[str, Any] = field(default_factory=dict)
    """Empty if the broker does not answer, or is not an Ottla."""
    skew_ms: float = 0.0
    """How far the broker's clock is ahead of ours."""
    margin_ms: float = 0.0
    """The error of that, at most."""


async def broker_reports(
    cluster: Cluster, node_ids: Iterable[int], *, include_ensemble: bool = False
) -> dict[int, BrokerReport]:
    """Ask these brokers."""
    asked = [_ask(cluster, node_id, include_ensemble) for node_id in node_ids]
    return {each.node_id: each for each in await asyncio.gather(*asked)}


async def _ask(cluster: Cluster, node_id: int, include_ensemble: bool) -> BrokerReport:
    known = cluster.brokers.get(node_id)
    address = "" if known is None else str(known.address)
    if known is None:
        return BrokerReport(node_id, address, "it is not in the cluster now")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            connection = await cluster.connections.get(known.address)
            if ApiKey.DESCRIBE_BROKER_HEALTH not in connection.session.versions:
                return BrokerReport(node_id, address)
            request = DescribeBrokerHealthRequest(include_ensemble=include_ensemble)
            began_ms = SystemClock().wall_ms()
            response = await connection.request(request, DescribeBrokerHealthResponse)
            took_ms = SystemClock().wall_ms() - began_ms
    except TimeoutError:
        return BrokerReport(node_id, address, f"no answer within {TIMEOUT_S:g} s")
    except BrokerUnreachable as error:
        return BrokerReport(node_id, address, error.reason)
    except (ClientError, KafkaError, OSError) as error:
        return BrokerReport(node_id, address, str(error) or type(error).__name__)
    if response.error_code:
        return BrokerReport(node_id, address, response.error_code.name)
    report = json.loads(response.report)
    # Its clock was read between the request and the response, more likely near the middle.
    skew_ms = report["now_ms"] - (began_ms + took_ms / 2)
    return BrokerReport(node_id, address, None, report, skew_ms, took_ms / 2 + 1)
