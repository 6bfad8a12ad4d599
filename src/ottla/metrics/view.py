"""The parts of a broker that metrics are read from."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.api.dispatcher import Dispatcher
from ottla.api.support.context import Services
from ottla.log.directories.flusher import Flusher
from ottla.network.server import Server


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A complete broker."""

    services: Services
    server: Server
    dispatcher: Dispatcher
    flusher: Flusher
    version: str
    address: str
    """The first advertised address."""
