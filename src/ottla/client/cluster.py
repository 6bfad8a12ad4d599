"""The cluster as a client sees it: metadata, one connection to each broker, and retries.

A `Cluster` connects to one of the bootstrap addresses, requests metadata, and from then on uses the
addresses that brokers advertise; if none of these can be reached, it returns to the bootstrap addresses.
Metadata may be stale at any time: callers that get an error that says so (NotLeaderOrFollower and the like)
call `forget`. `retrying` retries a call with exponential back-off; after an error that stale metadata may
explain, the next attempt requests fresh metadata.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import MetadataRequest, MetadataResponse
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponseTopic

from ottla.client.client_options import ClientOptions
from ottla.client.errors import (
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    NoLeader,
    TimedOut,
    error_for,
    meaning_of,
    raise_for,
)
from ottla.client.metadata import Broker, Metadata, PartitionInfo, TopicInfo
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError, LeaderNotAvailable
from ottla.protocol.types import TopicName
from ottla.wire.address import Address
from ottla.wire.backoff import Backoff
from ottla.wire.connection import Connection, milliseconds
from ottla.wire.connection_pool import ConnectionPool

if TYPE_CHECKING:
    from kio.static.primitive import i32Timedelta

log = logging.getLogger(__name__)

__all__ = ["TRANSIENT", "Broker", "Cluster", "PartitionInfo", "TopicInfo"]

DEFAULTS = ClientOptions(default_api_timeout_ms=30_000)
CREATION_TIMEOUT_MS = 3_000

TRANSIENT = frozenset(
    {
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.broker_not_available,
        ErrorCode.not_controller,
        ErrorCode.network_exception,
        ErrorCode.offset_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
    }
)
"""Retriable errors: they disappear once the client has fresh metadata."""

STALE_SIGNS = frozenset(
    {
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.broker_not_available,
        ErrorCode.not_controller,
        ErrorCode.network_exception,
    }
)
"""Errors after which metadata is refreshed before the next attempt."""

BROKERS_SHARE = 5 / 6
"""The part of the request timeout that a broker may use, so that its response arrives before the rest."""

_UNKNOWN = frozenset({ErrorCode.unknown_topic_or_partition})

Result = TypeVar("Result")


class Cluster:
    """Metadata and connections; use it as `async with Cluster(addresses) as cluster`."""

    def __init__(
        self,
        bootstrap: Sequence[Address] | None = None,
        *,
        client_id: str | None = None,
        timeout_ms: int | None = None,
        options: ClientOptions | None = None,
        waits_for_brokers: bool = False,
    ) -> None:
        options = options or DEFAULTS
        if client_id is not None:
            options = replace(options, client_id=client_id)
        self.options = options
        self.bootstrap = options.addresses if bootstrap is None else tuple(bootstrap)
        self.metadata = Metadata()
        self.connections = ConnectionPool(options.pool())
        self.timeout_ms = options.default_api_timeout_ms if timeout_ms is None else timeout_ms
        self.backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms)
        self.waits_for_brokers = waits_for_brokers
        """Whether every call waits for unreachable brokers, not only those with `wait_for_brokers`."""
        self._asking = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect to a broker and get the list of brokers."""
        try:
            await self.refresh([])
        except BaseException:
            await self.close()
            raise

    async def start_lazily(self) -> None:
        """Connect if a broker is reachable; if not, the first call connects.

        Raises permanent errors: rejected credentials, an untrusted certificate.
        """
        try:
            async with asyncio.timeout(self.options.socket_connection_setup_timeout_ms / 1000):
                await self.refresh([])
        except (KafkaError, ClientError, TimeoutError) as error:
            if not isinstance(error, TimeoutError) and not is_retriable(error):
                await self.close()
                raise
            log.warning("no broker is reachable yet, the first call will retry: %s", error)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all connections; return when all written data has left."""
        await self.connections.close()

    @property
    def features(self) -> dict[str, int]:
        """The cluster's finalized features and their levels, from the last broker that was connected to."""
        return self.connections.features

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id."""
        return self.metadata.cluster_id

    @property
    def controller_id(self) -> int:
        """The node id of the controller; -1 if it is unknown."""
        return self.metadata.controller_id

    @property
    def brokers(self) -> dict[int, Broker]:
        """The brokers by node id."""
        return self.metadata.brokers

    @property
    def broker_timeout(self) -> i32Timedelta:
        """The timeout to put into requests that a broker may have to wait for."""
        return milliseconds(int(self.options.request_timeout_ms * BROKERS_SHARE))

    async def any_broker(self) -> Connection:
        """Return a connection to any broker: an open one, else the first that can be opened."""
        if (connection := self.connections.least_busy()) is not None:
            return connection
        known = dict.fromkeys([*self.bootstrap, *(broker.address for broker in self.brokers.values())])
        failures: list[ClientError] = []
        for address in known:
            try:
                return await self.connections.get(address)
            except ClientError as failure:
                failures.append(failure)
        unreachable = [each for each in failures if isinstance(each, BrokerUnreachable)]
        if len(unreachable) < len(failures):
            raise next(each for each in failures if not isinstance(each, BrokerUnreachable))
        reasons = dict.fromkeys(failure.reason for failure in unreachable)
        raise BrokerUnreachable(tuple(known), "; ".join(reasons))

    async def broker(self, node_id: int) -> Connection:
        """Return a connection to one broker; refresh its address if it could not be reached before."""
        if node_id not in self.brokers or (
            self.metadata.are_brokers_stale and self.open_connection(node_id) is None
        ):
            await self.refresh([])
        if node_id not in self.brokers:
            raise NoLeader(f"broker {node_id} is not in the cluster now")
        address = self.brokers[node_id].address
        try:
            return await self.connections.get(address)
        except BrokerUnreachable as failure:
            self.metadata.are_brokers_stale = True
            if address in self.bootstrap:
                raise
            raise BrokerUnreachable([address], failure.reason, advertised_by=f"broker {node_id}") from None

    def open_connection(self, node_id: int) -> Connection | None:
        """Return the connection to one broker if it is open."""
        broker = self.metadata.brokers.get(node_id)
        return None if broker is None else self.connections.get_open(broker.address)

    async def controller(self) -> Connection:
        """Return a connection to the controller, which changes topics and configs."""
        if self.controller_id not in self.brokers or self.metadata.are_brokers_stale:
            await self.refresh([])
        named = self.controller_id
        if named not in self.brokers:
            return await self.any_broker()
        try:
            return await self.broker(named)
        except BrokerUnreachable:
            await self.refresh([])
            if self.controller_id == named or self.controller_id not in self.brokers:
                raise
            return await self.broker(self.controller_id)

    async def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> dict[str, TopicInfo]:
        """Request the metadata of `topics` (None: all) and return it by name.

        Raises the error of the first topic that has one. With `create`, the broker creates missing topics
        if auto.create.topics.enable is on.
        """
        names = None if topics is None else list(dict.fromkeys(topics))
        answers = await self._ask(names, create)
        for each in answers:
            raise_for(each.error_code, each.name)
        now = asyncio.get_running_loop().time()
        return {topic.name: topic for topic in (self.metadata.learn_topic(each, now) for each in answers)}

    async def refresh_some(self, names: Iterable[str]) -> dict[str, TopicInfo | KafkaError]:
        """Request the metadata of topics; return it, or the error, by name."""
        found: dict[str, TopicInfo | KafkaError] = {}
        answers = await self._ask(list(dict.fromkeys(names)), create=False)
        now = asyncio.get_running_loop().time()
        for each in answers:
            name = each.name or ""
            if each.error_code:
                found[name] = error_for(each.error_code, name)
            else:
                found[name] = self.metadata.learn_topic(each, now)
        return found

    async def topic(self, name: str, *, create: bool = False) -> TopicInfo:
        """Return the metadata of a topic; request it if it is missing or older than metadata_max_age_ms.

        With `create`, a broker may create the topic. It first answers UNKNOWN_TOPIC_OR_PARTITION, so that
        error is retried for a while.
        """
        known = self.known(name)
        if known is None:
            async with self._asking:  # those that wait here find the answer to the first request
                known = self.known(name)
                if known is None:
                    found = await self.retrying(
                        lambda: self.refresh([name], create=create),
                        also=_UNKNOWN if create else frozenset(),
                        also_for_ms=CREATION_TIMEOUT_MS,
                        what=f"topic {name!r} was not found",
                    )
                    known = found[name]
        return known

    def known(self, name: str) -> TopicInfo | None:
        """Return the cached metadata of a topic; None if it is missing, stale or too old."""
        oldest = asyncio.get_running_loop().time() - self.options.metadata_max_age_ms / 1000
        return self.metadata.topic(name, oldest)

    def forget(self, name: str) -> None:
        """Mark the cached metadata of a topic as stale."""
        self.metadata.mark_stale(name)

    async def leader(self, partition: TopicPartition) -> int:
        """Return the node id of the partition's leader; raise LeaderNotAvailable if it has none now."""
        topic = await self.topic(partition.topic)
        info = topic.partitions.get(partition.partition)
        if info is None or info.leader < 0:
            self.forget(partition.topic)
            there_are = f"{topic.name} has {len(topic.partitions)} partitions, numbered from 0"
            why = "has no leader now" if info is not None else f"does not exist: {there_are}"
            raise LeaderNotAvailable(f"{partition} {why}")
        return info.leader

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[Result]],
        *,
        also: frozenset[ErrorCode] = frozenset(),
        also_for_ms: float = math.inf,
        wait_for_brokers: bool = False,
        timeout_ms: float | None = None,
        backoff: Backoff | None = None,
        what: str = "the call was not answered",
    ) -> Result:
        """Return what `attempt` returns; retry it while it fails with retriable errors.

        `also` names further retriable error codes (for `also_for_ms` at most); with `wait_for_brokers`,
        unreachable brokers are retriable too. At the timeout the running attempt is cancelled and TimedOut
        raised, with `what` and the last failure; without `wait_for_brokers`, or after an error code, the last
        error itself.
        """
        wait_for_brokers = wait_for_brokers or self.waits_for_brokers
        timeout_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        attempts = _Attempts(backoff or self.backoff, timeout_ms, what)
        limit = asyncio.timeout_at(attempts.deadline)
        outer = _under_way.set(attempts)
        try:
            async with limit:
                while True:
                    attempts.is_pausing = False
                    try:
                        return await attempt()
                    except (KafkaError, ClientError) as error:
                        is_in_time = attempts.passed_ms() < also_for_ms
                        if not is_retriable(error, also if is_in_time else frozenset(), wait_for_brokers):
                            raise
                        if not isinstance(error, KafkaError) or error.code in STALE_SIGNS:
                            self.metadata.mark_all_stale()
                        pause_s = attempts.pause_after(error, wait_for_brokers)
                    await asyncio.sleep(pause_s)
        except TimeoutError:
            if not limit.expired():
                raise
            if attempts.is_pausing:  # no attempt is running: raise the last failure
                attempts.give_up(wait_for_brokers)
            raise attempts.timed_out() from attempts.last
        finally:
            _under_way.reset(outer)

    async def _ask(self, names: Sequence[str] | None, create: bool) -> Sequence[MetadataResponseTopic]:
        """Request metadata, update the brokers, and return the response of each topic."""
        wanted = None if names is None else tuple(_by_name(name) for name in names)
        request = MetadataRequest(
            topics=wanted, allow_auto_topic_creation=create, include_topic_authorized_operations=False
        )
        connection = await self.any_broker()
        timeout_ms = min(self.timeout_ms, self.options.request_timeout_ms)
        response = await connection.request(request, MetadataResponse, timeout_ms=timeout_ms)
        self.metadata.learn(response)
        for each in response.topics:
            if each.error_code in _UNKNOWN:
                self.metadata.forget(each.name or "")
        return response.topics


_under_way: ContextVar[_Attempts | None] = ContextVar("_under_way", default=None)
"""The innermost call that is being retried; calls may be nested."""


class _Attempts:
    """The attempts of one call: pauses, deadline and the error at the end."""

    def __init__(self, backoff: Backoff, timeout_ms: float, what: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._backoff = backoff
        self._timeout_ms = timeout_ms
        self._what = what
        self._began = self._loop.time()
        self.deadline = self._began + timeout_ms / 1000
        self.failures = 0
        self.is_pausing = False
        self.last: KafkaError | ClientError | None = None
        self._outer = _under_way.get()

    def passed_ms(self) -> float:
        """Return the time since the first attempt."""
        return (self._loop.time() - self._began) * 1000

    def pause_after(self, error: KafkaError | ClientError, wait_for_brokers: bool) -> float:
        """Return the seconds until the next attempt; raise if that is after the deadline."""
        self._count(error)
        pause_s = self._backoff.pause_ms(self.failures) / 1000
        self.is_pausing = True
        if self._loop.time() + pause_s > self.deadline:
            self.give_up(wait_for_brokers)
        return pause_s

    def give_up(self, wait_for_brokers: bool) -> NoReturn:
        """Raise the last failure; TimedOut if the call waits for brokers and got no response."""
        assert self.last is not None
        if wait_for_brokers and isinstance(self.last, ClientError):
            raise self.timed_out() from self.last
        raise self.last

    def _count(self, error: KafkaError | ClientError) -> None:
        """Count a failure, also for the enclosing calls: they may time out first."""
        self.failures += 1
        self.last = error
        if self._outer is not None:
            self._outer._count(error)

    def timed_out(self) -> TimedOut:
        """Return the error: what was not done, why, and what to do."""
        if isinstance(self.last, TimedOut):
            return self.last
        tried = f"{self._what} within {self._timeout_ms / 1000:g} s"
        if self.last is None:
            return TimedOut(f"{tried}: the brokers take longer; see their logs, or raise the timeout")
        why = str(self.last) or meaning_of(self.last.code if isinstance(self.last, KafkaError) else -1)
        hint = ""
        if isinstance(self.last, BrokerUnreachable):
            hint = " (start the brokers, or correct the addresses)"
        return TimedOut(f"{tried}, {self.failures} attempts failed, the last one with: {why}{hint}")


def is_retriable(
    error: KafkaError | ClientError, also: frozenset[ErrorCode] = frozenset(), wait_for_brokers: bool = True
) -> bool:
    """Return whether a call that failed with this error may succeed if it is retried."""
    if isinstance(error, KafkaError):
        return error.code in TRANSIENT or error.code in also
    return isinstance(error, ConnectionLost) or (
        wait_for_brokers and isinstance(error, BrokerUnreachable | NoLeader)
    )


def _by_name(name: str) -> MetadataRequestTopic:
    return MetadataRequestTopic(topic_id=None, name=TopicName(name))
