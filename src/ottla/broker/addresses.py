"""Bind a broker's ports; its advertised addresses, and the addresses of other brokers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.broker.data_directory import StartError
from ottla.common.listeners import Address, Listener
from ottla.metadata.image import ClusterImage
from ottla.metrics.service import MetricsService
from ottla.network.server import Server
from ottla.wire.peers import PeerAddress


async def bind_listeners(server: Server, listeners: Iterable[Listener]) -> None:
    """Take the ports for clients, or none of them."""
    for listener in listeners:
        try:
            await server.bind(listener)
        except OSError as error:
            await server.stop(0)
            raise StartError(
                f"cannot listen on {listener}: {_why(error)}. "
                f"Is another broker running there? Choose another port with --listen HOST:PORT"
            ) from error


async def bind_metrics(metrics: MetricsService, host: str, port: int, *, is_required: bool) -> None:
    """Take the port for `/metrics`."""
    try:
        await metrics.start(host, port, is_required=is_required)
    except OSError as error:
        raise StartError(
            f"cannot serve metrics on {Address(host, port)}: {_why(error)}. "
            f"Choose another port with --metrics HOST:PORT, or say --metrics off"
        ) from error


def _why(error: OSError) -> str:
    """Return the reason in the system's words; asyncio puts its own around them."""
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)


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
