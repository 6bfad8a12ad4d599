"""What a handler is given: who asks, and the services of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ottla.api.support.first_sequence_guard import FirstSequenceGuard
from ottla.api.support.produce_scheduler import ProduceScheduler
from ottla.api.support.request_times import UNCOUNTED, RequestTimes
from ottla.metadata.image import ClusterImage
from ottla.protocol.errors import CoordinatorLoadInProgress, KafkaError

# Producer ids, taken from the controller a block at a time so that most requests cost nothing.

SOON_S = 0.1


class ProducerIds:
    """Hands out ids that no producer of this cluster ever had."""

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block = range(0)
        self._filling: asyncio.Task[None] | None = None

    @property
    def has_some(self) -> bool:
        """Whether an id can be had at once."""
        return bool(self._block)

    async def next(self) -> int:
        """Return a new id; after a crash the rest of the block is skipped, never repeated."""
        while not self._block:
            await self.fill()
        producer_id = self._block[0]
        self._block = self._block[1:]
        return producer_id

    async def next_soon(self) -> int:
        """Return a new id; raise CoordinatorLoadInProgress if there is none within a moment."""
        try:
            async with asyncio.timeout(SOON_S):
                return await self.next()
        except TimeoutError:
            raise CoordinatorLoadInProgress("there are no producer ids at the moment") from None

    async def fill(self) -> None:
        """Wait until there are ids. They are asked for once for all, who may stop waiting at any time."""
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
            filling.exception()  # perhaps nobody waits any more

    async def _fill(self) -> None:
        """Take more ids. Of a missing controller clients know nothing: they are told to try again."""
        try:
            self._block = await self._allocate()
        except KafkaError as error:
            raise CoordinatorLoadInProgress(f"there are no producer ids at the moment: {error}") from error


# The Metadata response for all topics, kept encoded: large clusters are asked for it again and again.


class EncodedMetadata:
    """Response bodies of one image, by whatever else decides them; a new image makes them void."""

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._bodies: dict[Hashable, bytes] = {}

    def body(self, image: ClusterImage, key: Hashable, encode: Callable[[], bytes]) -> bytes:
        """Return the body of `key` for `image`, calling `encode` only if it is not here yet."""
        if image is not self._image:
            self._image = image
            self._bodies = {}
        body = self._bodies.get(key)
        if body is None:
            body = self._bodies[key] = encode()
        return body


if TYPE_CHECKING:
    from ottla.api.support.fetch_sessions import FetchSessions
    from ottla.api.support.recently_fenced_brokers import RecentlyFencedBrokers
    from ottla.common.clock import Clock
    from ottla.common.config.broker import BrokerConfig
    from ottla.controller.runner import Controller
    from ottla.coordinator.groups import GroupCoordinator
    from ottla.coordinator.transactions import TransactionCoordinator
    from ottla.log.log_directory import LogDirectory
    from ottla.metadata.state import ClusterState
    from ottla.replication.purgatory import Purgatory
    from ottla.replication.registry import PartitionRegistry
    from ottla.replication.replicator import Replicator
    from ottla.wire.peers import Peers


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
    departed_brokers: RecentlyFencedBrokers
    fetch_sessions: FetchSessions
    purgatory: Purgatory
    producer_ids: ProducerIds
    config: BrokerConfig
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    replicator: Replicator
    produce_turns: ProduceScheduler = field(default_factory=ProduceScheduler)
    late_beginnings: FirstSequenceGuard = field(default_factory=FirstSequenceGuard)
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
