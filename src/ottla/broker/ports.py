"""Taking a broker's ports; what is in the way is said with what to type instead."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ottla.broker.errors import StartError
from ottla.common.listeners import Address, Listener
from ottla.metrics.service import MetricsService
from ottla.network.server import Server


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


async def bind_metrics(metrics: MetricsService, host: str, port: int, *, must_be_there: bool) -> None:
    """Take the port for `/metrics`."""
    try:
        await metrics.start(host, port, must_be_there=must_be_there)
    except OSError as error:
        raise StartError(
            f"cannot serve metrics on {Address(host, port)}: {_why(error)}. "
            f"Choose another port with --metrics HOST:PORT, or say --metrics off"
        ) from error


def _why(error: OSError) -> str:
    """Return the reason in the system's words; asyncio puts its own around them."""
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
