"""Convert results and errors into response fields."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla.protocol.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower
from ottla.protocol.hot_path import Leader

if TYPE_CHECKING:
    from ottla.api.support.context import RequestContext

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's message for SECURITY_DISABLED, which tools match."""


def code_of(result: object) -> ErrorCode:
    """Return the code of a result that may be an error."""
    return result.code if isinstance(result, KafkaError) else ErrorCode.none


def message_of(result: object) -> str | None:
    """Return the message of a result that may be an error."""
    return result.message if isinstance(result, KafkaError) else None


def milliseconds(time: timedelta) -> int:
    """Return a timedelta of a request as the milliseconds that the client sent."""
    return time // timedelta(milliseconds=1)


def leader_hint(
    ctx: RequestContext, error: KafkaError, topic: str | UUID | None, index: int
) -> Leader | None:
    """Return the leader in the image, if `error` says that the client has a wrong one (KIP-951)."""
    if not isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
        return None
    services = ctx.services
    image = services.cluster.image
    name = image.names_by_id.get(topic, "") if isinstance(topic, UUID) else topic or ""
    partition = image.partition(name, index)
    if partition is None or partition.leader in (-1, services.node_id):
        return None
    return Leader(partition.leader, partition.leader_epoch)
