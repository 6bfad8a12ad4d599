"""The current leader, for the response to a client that asked another broker (KIP-951)."""

from __future__ import annotations

from uuid import UUID

from ottla.api.support.context import RequestContext
from ottla.protocol.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower
from ottla.protocol.hot_path import Leader


def leader_hint(
    ctx: RequestContext, error: KafkaError, topic: str | UUID | None, index: int
) -> Leader | None:
    """Return the leader in the image, if `error` says that the client has a wrong one."""
    if not isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
        return None
    services = ctx.services
    image = services.cluster.image
    name = image.names_by_id.get(topic, "") if isinstance(topic, UUID) else topic or ""
    partition = image.partition(name, index)
    if partition is None or partition.leader in (-1, services.node_id):
        return None
    return Leader(partition.leader, partition.leader_epoch)
