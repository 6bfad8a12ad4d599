"""What every handler receives: the request's context, and the broker's services."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ottla.api.support.first_sequence_guard import FirstSequenceGuard
from ottla.api.support.produce_scheduler import ProduceScheduler
from ottla.api.support.request_times import UNCOUNTED, RequestTimes
from ottla.metadata.image import ClusterImage
from ottla.protocol.errors import CoordinatorLoadInProgress, KafkaError

# Producer ids, allocated by the controller a block at a time, so that most requests need no round trip.

ALLOCATION_TIMEOUT_S = 0.1


class ProducerIds:
    """Allocates ids that are unique in the cluster."""

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block = range(0)
        self._filling: asyncio.Task[None] | None = None

    @property
    def is_available(self) -> bool:
        """Whether an id is available without waiting."""
        return bool(self._block)

    async def next(self) -> int:
        """Return a new id; after a crash the rest of the block is skipped, never reused."""
        while not self._block:
            await self.fill()
        producer_id = self._block[0]
        self._block = self._block[1:]
        return producer_id

    async def try_next(self) -> int:
        """Return a new id; raise CoordinatorLoadInProgress if none is available within SOON_S."""
        try:
            async with asyncio.timeout(ALLOCATION_TIMEOUT_S):
                return await self.next()
        except TimeoutError:
            raise CoordinatorLoadInProgress("no producer ids are available yet") from None

    async def fill(self) -> None:
        """Wait until ids are available. All waiters share one allocation; each may be cancelled
        independently.
        """
        if self._filling is None:
            self._filling = asyncio.create_task(self._fill(), name="allocate producer ids")
            self._filling.add_done_callback(self._filled)
        await asyncio.shield(self._filling)

    def stop(self) -> None:
        """Ask no more."""
        if self._filling is not None:
            self._filling.cancel()

    def _filled(self, filling: asyncio.Task[None]) -> None:
        self._filling = None
        if not filling.cancelled():
            filling.exception()  # mark the exception as retrieved: all waiters may have been cancelled

    async def _fill(self) -> None:
        """Allocate a block. Clients do not know of controllers: they get a retriable coordinator error."""
        try:
            self._block = await self._allocate()
        except KafkaError as error:
            raise CoordinatorLoadInProgress(f"no producer ids are available yet: {error}") from error


# The encoded Metadata response for all topics: clients of large clusters request it again and again.


class EncodedMetadata:
    """Encoded responses of one cluster image; a new image discards them."""

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._bodies: dict[Hashable, bytes] = {}

    def body(self, image: ClusterImage, key: Hashable, encode: Callable[[], bytes]) -> bytes:
        """Return the body of `key` for `image`; call `encode` only if it is not cached."""
        if image is not self._image:
            self._image = image
            self._bodies = {}
        body = self._bodies.get(key)
        if body is None:
            body = self._bodies[key] = encode()
        return body


if TYPE_CHECKING:
    from ottla.api.schema_validation.validator import SchemaValidator
    from ottla.api.support.audit_log import AuditLog
    from ottla.api.support.client_quotas import ClientQuotas
    from ottla.api.support.fetch_sessions import FetchSessions
    from ottla.api.support.recently_fenced_brokers import RecentlyFencedBrokers
    from ottla.common.clock import Clock
    from ottla.common.config.broker import BrokerConfig
    from ottla.controller.runner import Controller
    from ottla.coordinator.groups import GroupCoordinator
    from ottla.coordinator.transactions import TransactionCoordinator
    from ottla.log.directories.log_directories import LogDirectories
    from ottla.metadata.state import ClusterState
    from ottla.replication.directory_moves import DirectoryMoves
    from ottla.replication.purgatory import Purgatory
    from ottla.replication.registry import PartitionRegistry
    from ottla.replication.replicator import Replicator
    from ottla.security.authorizer import Authorizer
    from ottla.security.sasl import SaslSession
    from ottla.wire.peers import Peers


LIBRDKAFKA = "rdkafka"
"""Part of its name, and of the versions of its bindings: confluent-kafka-python 2.16.1-rdkafka-2.16.0."""


class ClientConnection(Protocol):
    """The connection of a request."""

    software: str
    """Name and version of the client's software, if the client sent them."""
    has_fetched: bool
    """Whether it has sent a Fetch: it belongs to a consumer."""
    principal: str
    """Who the client is: `User:alice`, or ANONYMOUS on a listener without authentication."""
    is_token_authenticated: bool
    """Whether it authenticated with a delegation token."""
    sasl: SaslSession | None
    """The state of its authentication by SASL; None on a listener without SASL."""

    def close(self, reason: str) -> None:
        """Serve no more requests, answer the pending ones, then close."""
        ...

    def hold(self) -> None:
        """Stop reading requests from it until `release`."""
        ...

    def mute(self, duration_ms: int) -> None:
        """Read no more requests for a time: the client exceeds a quota."""
        ...

    def release(self) -> None:
        """Resume reading requests; called once for every `hold`."""
        ...

    @property
    def has_queued_request(self) -> bool:
        """Return whether a later request of this connection waits for the response to an earlier one."""
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


HandleForwarded = Callable[[ClientConnection, bytes], Awaitable[bytes]]


@dataclass(slots=True)
class Services:
    """The parts of the broker that handlers use. Built once, by `broker/`."""

    node_id: int
    clock: Clock
    cluster: ClusterState
    controller: Controller
    partitions: PartitionRegistry
    log_directories: LogDirectories
    directory_moves: DirectoryMoves
    encoded_metadata: EncodedMetadata
    recently_fenced_brokers: RecentlyFencedBrokers
    fetch_sessions: FetchSessions
    purgatory: Purgatory
    producer_ids: ProducerIds
    config: BrokerConfig
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    replicator: Replicator
    schema_validator: SchemaValidator
    produce_scheduler: ProduceScheduler = field(default_factory=ProduceScheduler)
    first_sequence_guard: FirstSequenceGuard = field(default_factory=FirstSequenceGuard)
    authorizer: Authorizer | None = None
    """Decides by ACLs; None allows everything."""
    audit: AuditLog | None = None
    """Takes down denials and administrative changes; None if it is off."""
    peers: Peers | None = None
    """The clients to the other brokers; None for a single broker."""
    is_broker: Callable[[ClientConnection], bool | None] = lambda _: True
    """Whether a connection whose client id is a broker's is one; None: it has not authenticated yet."""
    check_config: Callable[[BrokerConfig, Sequence[str]], None] = lambda _config, _keys: None
    """Raises ConfigError for a configuration that this broker could not use after a change of some keys."""
    quotas: ClientQuotas | None = None
    """The quotas of users and client ids; None while there are none."""
    throttles: Counter[str] = field(default_factory=Counter)
    """How many answers had a throttle time, by the key of the quota."""
    throttle_ms: Counter[str] = field(default_factory=Counter)
    """The sum of these times, by the key of the quota."""
    logins: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """How many clients have authenticated by SASL, or failed to, by mechanism and success."""
    denials: Counter[str] = field(default_factory=Counter)
    """How often an operation on a resource was denied, by the operation."""
    handle_forwarded: HandleForwarded | None = None
    """Serves a request that another broker forwarded; set by the dispatcher."""


class RequestContext:
    """One request."""

    __slots__ = (
        "api_key",
        "client_id",
        "connection",
        "correlation_id",
        "services",
        "throttle_ms",
        "times",
        "version",
    )

    def __init__(
        self,
        services: Services,
        connection: ClientConnection,
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
        """The latency counters of this request's API and version."""
        self.throttle_ms = 0
        """The throttle time in the response, set by the quotas."""

    @property
    def principal(self) -> str:
        """Return the principal that the connection authenticated as."""
        return self.connection.principal
