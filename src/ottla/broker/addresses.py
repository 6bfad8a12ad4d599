"""Where a broker is reached: what it says of itself, and what it knows of others."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.common.listeners import Address
from ottla.metadata.image import ClusterImage
from ottla.network.peer import PeerAddress
from ottla.network.server import Server


@dataclass(frozen=True)
class BrokerAddresses:
    """What a broker that is ready says of itself."""

    node_id: int
    cluster_id: str
    data_directory: str
    listeners: tuple[tuple[str, Address], ...]
    """Each listener's name with the address that clients are told."""
    metrics: Address | None = None
    """Where `/metrics` is, if it is anywhere."""


def advertised(server: Server) -> dict[str, Address]:
    """Return each listener's name with the address that clients are told."""
    return {listener.name: listener.advertised_at(listener.port) for listener in server.listeners}


def peer_address(image: ClusterImage, node_id: int, listener_name: str | None) -> PeerAddress | None:
    """Return where another broker is reached by brokers; None if it is known to be dead."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.fenced or not broker.endpoints:
        return None
    endpoint = broker.endpoint(listener_name.upper()) if listener_name else broker.endpoints[0]
    return None if endpoint is None else PeerAddress(endpoint.host, endpoint.port, broker.epoch)
