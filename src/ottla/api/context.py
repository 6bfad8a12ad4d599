"""What a handler is given: who asks, and the services of the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ottla.api.late_beginnings import LateBeginnings
from ottla.api.produce_turns import ProduceTurns
from ottla.api.request_times import UNCOUNTED, RequestTimes

if TYPE_CHECKING:
    from ottla.api.departed_brokers import DepartedBrokers
    from ottla.api.encoded_metadata import EncodedMetadata
    from ottla.api.fetch_sessions import FetchSessions
    from ottla.api.producer_ids import ProducerIds
    from ottla.common.clock import Clock
    from ottla.common.config.broker import BrokerConfig
    from ottla.controller.runner import Controller
    from ottla.coordinator.groups import GroupCoordinator
    from ottla.coordinator.transactions import TransactionCoordinator
    from ottla.log.log_directory import LogDirectory
    from ottla.metadata.state import ClusterState
    from ottla.network.peer import Peers
    from ottla.replication.purgatory import Purgatory
    from ottla.replication.registry import PartitionRegistry
    from ottla.replication.replicator import Replicator


ANONYMOUS = "User:ANONYMOUS"


class Peer(Protocol):
    """The connection that a request came in on."""

    software: str
    """Name and version of the client's software, as far as it has told them."""
    has_fetched: bool
    """Whether it is a consumer's: it has asked for records."""

    def hold(self) -> None:
        """Take no more requests from it until `release`."""
        ...

    def release(self) -> None:
        """Take requests again; called once for every `hold`."""
        ...

    @property
    def is_held_up(self) -> bool:
        """Return whether another request of this connection waits for the answer to an earlier one."""
        ...

    @property
    def peer(self) -> str:
        """Return the client's address, for log lines."""
        ...

    @property
    def host(self) -> str:
        """Return the client's address without the port."""
        ...

    @property
    def listener_name(self) -> str:
        """Return the name of the listener, which decides the advertised addresses."""
        ...


HandleForwarded = Callable[[Peer, bytes], Awaitable[bytes]]


@dataclass(slots=True)
class Services:
    """The parts of the broker that handlers use. Built once, by `broker/`."""

    node_id: int
    clock: Clock
    cluster: ClusterState
    controller: Controller
    partitions: PartitionRegistry
    log_directory: LogDirectory
    encoded_metadata: EncodedMetadata
    departed_brokers: DepartedBrokers
    fetch_sessions: FetchSessions
    purgatory: Purgatory
    producer_ids: ProducerIds
    config: BrokerConfig
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    replicator: Replicator
    produce_turns: ProduceTurns = field(default_factory=ProduceTurns)
    late_beginnings: LateBeginnings = field(default_factory=LateBeginnings)
    peers: Peers | None = None
    """The other brokers, where there may be some."""
    handle_forwarded: HandleForwarded | None = None
    """Serves a request that another broker passed on; the dispatcher fills this in."""


class RequestContext:
    """One request."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "services", "times", "version")

    def __init__(
        self,
        services: Services,
        connection: Peer,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        times: RequestTimes = UNCOUNTED,
    ) -> None:
        self.services = services
        self.connection = connection
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.times = times
        """What this request counts for."""

    @property
    def principal(self) -> str:
        """Return who asks; everybody is the same until connections are authenticated."""
        return ANONYMOUS
