"""Bind a broker's ports; its advertised addresses, and the addresses of other brokers."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.broker.data_directory import StartError
from ottla.common.listeners import Address, Listener
from ottla.metadata.image import ClusterImage
from ottla.metadata.records import Endpoint
from ottla.metrics.service import MetricsService
from ottla.network.listener_security import ListenerSecurity
from ottla.network.server import Server
from ottla.wire.peers import PeerAddress


def check_ports(listeners: Iterable[Listener]) -> None:
    """Raise StartError if an address cannot be bound, before anything is created."""
    for listener in listeners:
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((listener.host, listener.port))
            except OSError as error:
                raise _cannot_listen(listener, error) from error


def _cannot_listen(listener: Listener, error: OSError) -> StartError:
    if isinstance(error, socket.gaierror):
        return StartError(
            f"cannot listen on {listener}: the host name {listener.host!r} does not resolve. "
            f"Listen on an address of this machine, such as 127.0.0.1 or 0.0.0.0: --listen HOST:PORT"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return StartError(
            f"cannot listen on {listener}: this machine does not have that address. "
            f"Listen on 0.0.0.0, and give the address of clients with --advertise"
        )
    return StartError(
        f"cannot listen on {listener}: {_why(error)}. "
        f"Is another broker running there? Choose another port with --listen HOST:PORT"
    )


async def bind_listeners(
    server: Server, listeners: Iterable[Listener], security: Mapping[str, ListenerSecurity]
) -> None:
    """Take the ports for clients, or none of them; `security` has each listener's by its name."""
    for listener in listeners:
        try:
            await server.bind(listener, security[listener.name])
        except OSError as error:
            await server.stop(0)
            raise _cannot_listen(listener, error) from error


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
    """Each listener's name with its advertised address."""
    metrics: Address | None = None
    """Where `/metrics` is, if it is anywhere."""


def advertised(server: Server) -> dict[str, Address]:
    """Return each listener's name with its advertised address."""
    return {listener.name: listener.advertised_at(listener.port) for listener in server.listeners}


def endpoints(server: Server) -> list[Endpoint]:
    """Return where clients and other brokers reach this broker."""
    return [
        Endpoint(each.name, *each.advertised_at(each.port), each.security_protocol)
        for each in server.listeners
    ]


def peer_address(image: ClusterImage, node_id: int, listener_name: str) -> PeerAddress | None:
    """Return where another broker is reached by brokers; None if it is known to be dead."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.fenced or not broker.endpoints:
        return None
    endpoint = broker.endpoint(listener_name)
    return None if endpoint is None else PeerAddress(endpoint.host, endpoint.port, broker.epoch)
