"""How the transaction coordinator reaches brokers: this one by a call, others over the network."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from kio.schema.write_txn_markers.v2 import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from ottla.api.support.context import Services
from ottla.api.write_txn_markers import append_marker, write_markers
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import CoordinatorNotAvailable, KafkaError
from ottla.protocol.records.control import Marker

MARKERS, VERIFICATIONS = "transaction markers", "transaction verifications"
"""Channels of their own: a marker is answered when it is committed, which may take as long as a failover."""


class TransactionPeers:
    """Has the markers of transactions written, here and elsewhere."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services

    def write_here(self, marker: Marker, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Write a marker into partitions of this broker that commit it at once; return which those were."""
        services = self._services()
        at_once = (at for at in partitions if _commits_at_once(services, at))
        return [at for at in at_once if append_marker(services, *at, marker) is None]

    async def send(self, node_id: int, request: Any) -> Any:
        """Return the response to a request."""
        services = self._services()
        if node_id == services.node_id and isinstance(request, WriteTxnMarkersRequest):
            return WriteTxnMarkersResponse(markers=await write_markers(services, request.markers))
        if services.peers is None:
            raise CoordinatorNotAvailable(f"broker {node_id} cannot be reached from here")
        channel = MARKERS if isinstance(request, WriteTxnMarkersRequest) else VERIFICATIONS
        return await services.peers.call(
            node_id, request.__api_key__, request.__version__, request, channel=channel
        )


def _commits_at_once(services: Services, at: TopicPartition) -> bool:
    try:
        return services.partitions.get(*at).commits_immediately
    except KafkaError:
        return False
