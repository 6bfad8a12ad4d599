"""Select the replica that a consumer reads from: one in its own rack, if so configured (KIP-392)."""

from __future__ import annotations

from ottla.api.support.context import RequestContext
from ottla.protocol.errors import NotLeaderOrFollower, OffsetNotAvailable, OffsetOutOfRange
from ottla.protocol.fetch_codec import FetchPartitionResult
from ottla.replication.partition import Partition

RACK_AWARE = "RackAwareReplicaSelector"


def preferred_replica(ctx: RequestContext, partition: Partition, offset: int, rack: str) -> int | None:
    """Return the replica that a consumer in `rack` should read from; None for this one."""
    services = ctx.services
    selector = services.config.replica_selector_class
    leader = partition.leader_state
    if selector is None or leader is None or selector.rsplit(".", 1)[-1] != RACK_AWARE:
        return None
    brokers = services.cluster.image.brokers
    own = brokers.get(services.node_id)
    if own is not None and own.rack == rack:
        return None
    ends = {
        node_id: follower.log_end_offset
        for node_id in leader.isr_state.isr
        if (follower := leader.isr_state.followers.get(node_id)) is not None
        and follower.log_start_offset <= offset <= follower.log_end_offset
        and (broker := brokers.get(node_id)) is not None
        and broker.rack == rack
        and not broker.fenced
    }
    return max(sorted(ends), key=lambda node_id: ends[node_id], default=None)


def check_follower_has(partition: Partition, offset: int, rack: str) -> None:
    """Redirect a consumer to the leader if this follower's log does not contain its offset.

    OFFSET_OUT_OF_RANGE would be wrong: the consumer would reset its position. A consumer that names no rack
    does not fetch from followers on purpose, and looks up the leader; the others return to this follower
    later.
    """
    log = partition.log
    if log.log_start_offset <= offset <= log.log_end_offset:
        return
    text = f"offset {offset} is not in this follower's log ({log.log_start_offset} to {log.log_end_offset})"
    if not rack:
        raise NotLeaderOrFollower(text)
    if offset > log.log_end_offset:
        raise OffsetNotAvailable(text)
    raise OffsetOutOfRange(text)  # on this error clients ask the leader (KIP-392)


def redirect(index: int, partition: Partition, preferred: int) -> FetchPartitionResult:
    """Return the response that redirects a consumer to another replica."""
    return FetchPartitionResult(
        index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        preferred_read_replica=preferred,
    )
