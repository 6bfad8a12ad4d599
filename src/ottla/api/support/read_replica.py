"""From which replica a consumer reads: from one in its own rack, if the broker is told so (KIP-392)."""

from __future__ import annotations

from ottla.api.support.context import RequestContext
from ottla.protocol.errors import NotLeaderOrFollower, OffsetNotAvailable, OffsetOutOfRange
from ottla.protocol.fetch_codec import FetchPartitionResult
from ottla.replication.partition import Partition

RACK_AWARE = "RackAwareReplicaSelector"


def preferred_replica(ctx: RequestContext, partition: Partition, offset: int, rack: str) -> int | None:
    """Return the replica that a consumer in `rack` should rather read from; None for this one."""
    services = ctx.services
    selector = services.config.replica_selector_class
    leading = partition.leader_state
    if selector is None or leading is None or selector.rsplit(".", 1)[-1] != RACK_AWARE:
        return None
    brokers = services.cluster.image.brokers
    own = brokers.get(services.node_id)
    if own is not None and own.rack == rack:
        return None
    ends = {
        node_id: follower.log_end_offset
        for node_id in leading.isr_state.isr
        if (follower := leading.isr_state.followers.get(node_id)) is not None
        and follower.log_start_offset <= offset <= follower.log_end_offset
        and (broker := brokers.get(node_id)) is not None
        and broker.rack == rack
        and not broker.fenced
    }
    return max(sorted(ends), key=lambda node_id: ends[node_id], default=None)


def check_follower_has(partition: Partition, offset: int, rack: str) -> None:
    """Send a reader back to the leader if this follower's log does not reach to its offset.

    That must not look as if the offset did not exist: the reader would start elsewhere. Whoever names no rack
    is here by mistake, and looks for the leader; the others come back here later.
    """
    log = partition.log
    if log.log_start_offset <= offset <= log.log_end_offset:
        return
    text = f"{offset} is outside of {log.log_start_offset} to {log.log_end_offset}, as this follower has it"
    if not rack:
        raise NotLeaderOrFollower(text)
    if offset > log.log_end_offset:
        raise OffsetNotAvailable(text)
    raise OffsetOutOfRange(text)  # then clients ask the leader (KIP-392)


def redirect(index: int, partition: Partition, preferred: int) -> FetchPartitionResult:
    """Return the answer that sends a consumer to another replica."""
    return FetchPartitionResult(
        index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        preferred_read_replica=preferred,
    )
