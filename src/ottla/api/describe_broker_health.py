"""DescribeBrokerHealth: how this broker is, in its own view (an API of Ottla's own).

Kafka's requests show the metadata that the cluster has agreed on. While nothing can be agreed on (ZooKeeper
has no quorum) it is out of date: only each leader knows whether its partitions can be written (decision 180).
The message is declared in protocol/own_messages.py.
"""

from __future__ import annotations

import json

from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.health_facts import collect
from ottla.api.support.health_findings import report
from ottla.protocol.own_messages import DescribeBrokerHealthRequest, DescribeBrokerHealthResponse
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType


async def describe_broker_health(
    request: DescribeBrokerHealthRequest, ctx: RequestContext
) -> DescribeBrokerHealthResponse:
    """Return the report as JSON."""
    if (refused := refusal(ctx, ResourceType.CLUSTER)) is not None:
        return DescribeBrokerHealthResponse(throttle_time=NO_THROTTLE, error_code=refused.code, report="")
    facts = await collect(ctx.services, include_ensemble=request.include_ensemble)
    return DescribeBrokerHealthResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, report=json.dumps(report(facts))
    )
