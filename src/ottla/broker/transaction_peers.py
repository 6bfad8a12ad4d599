"""How the transaction coordinator reaches brokers: this one by a call, others over the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kio.schema.write_txn_markers.v2 import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from ottla.api.context import Services
from ottla.api.write_txn_markers import write_markers
from ottla.protocol.errors import CoordinatorNotAvailable

MARKERS, VERIFICATIONS = "transaction markers", "transaction verifications"
"""Channels of their own: a marker is answered when it is committed, which may take as long as a failover."""


class TransactionPeers:
    """Has the markers of transactions written, here and elsewhere."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services

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
