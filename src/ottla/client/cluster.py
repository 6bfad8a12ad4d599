"""The cluster as a client sees it: what is known of it, and one connection to each broker.

A `Cluster` starts from the addresses the user gave, asks any of them for metadata, and from then
on talks to brokers at the addresses that they advertise; should none of these answer, it goes back to the
user's. What it knows may be stale at any time: callers that are told so by a broker (NotLeaderOrFollower
and the like) `forget`. `retrying` repeats a call with a growing pause; after a failure that a change in the
cluster may explain it trusts nothing that was known before, so the next attempt asks for fresh metadata.
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
"""Errors that pass by themselves, once the client has fresh metadata."""

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
"""Errors after which metadata is asked for again before the next attempt."""

BROKERS_SHARE = 5 / 6
"""The part of the request timeout that a broker may take, so that its answer still arrives in time."""

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
        is_patient: bool = False,
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
        self.is_patient = is_patient
        """Whether every call waits for brokers to come back, not only those that say so."""
        self._asking = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect to a broker and learn who the others are."""
        try:
            await self.refresh([])
        except BaseException:
            await self.close()
            raise

    async def start_lazily(self) -> None:
        """Connect if a broker answers now; if none does, leave that to the first call that needs one.

        Raises what does not pass by itself: a refused login, a certificate that is not accepted.
        """
        try:
            async with asyncio.timeout(self.options.socket_connection_setup_timeout_ms / 1000):
                await self.refresh([])
        except (KafkaError, ClientError, TimeoutError) as error:
            if not isinstance(error, TimeoutError) and not passes(error):
                await self.close()
                raise
            log.warning("no broker answers yet, the first call that needs one tries again: %s", error)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every connection; return when what was written has left."""
        await self.connections.close()

    @property
    def features(self) -> dict[str, int]:
        """The cluster's finalized features and their levels, as the last broker we connected to told."""
        return self.connections.features

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id."""
        return self.metadata.cluster_id

    @property
    def controller_id(self) -> int:
        """The broker to ask for changes; -1 if none is known."""
        return self.metadata.controller_id

    @property
    def brokers(self) -> dict[int, Broker]:
        """The brokers by node id."""
        return self.metadata.brokers

    @property
    def broker_timeout(self) -> i32Timedelta:
        """How long a broker may take for what it has to wait for itself."""
        return milliseconds(int(self.options.request_timeout_ms * BROKERS_SHARE))

    async def any_broker(self) -> Connection:
        """Return a connection to whichever broker answers: one that is open, known, or given by the user."""
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
        """Return a connection to one broker; where it is, is asked for again if it was not reached before."""
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
        """Return the connection to one broker if it can be used at once."""
        broker = self.metadata.brokers.get(node_id)
        return None if broker is None else self.connections.get_open(broker.address)

    async def controller(self) -> Connection:
        """Return a connection to the broker that changes topics and configs."""
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
        """Ask for the metadata of `topics` (None: all) and return it by name.

        Raises the error of the first topic that has one. With `create`, the broker may create the
        topics that it does not know, if its configuration says so.
        """
        names = None if topics is None else list(dict.fromkeys(topics))
        answers = await self._ask(names, create)
        for each in answers:
            raise_for(each.error_code, each.name)
        now = asyncio.get_running_loop().time()
        return {topic.name: topic for topic in (self.metadata.learn_topic(each, now) for each in answers)}

    async def refresh_some(self, names: Iterable[str]) -> dict[str, TopicInfo | KafkaError]:
        """Ask for the metadata of topics; return by name what is known of each now, or its error."""
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
        """Return what is known of a topic; ask if nothing is, or if it was learned too long ago.

        With `create`, a broker that is willing creates it: it answers that it does not know the
        topic first, so that answer is believed only after a while.
        """
        known = self.known(name)
        if known is None:
            async with self._asking:  # whoever waited here finds what the first one has asked for
                known = self.known(name)
                if known is None:
                    found = await self.retrying(
                        lambda: self.refresh([name], create=create),
                        also=_UNKNOWN if create else frozenset(),
                        also_for_ms=CREATION_TIMEOUT_MS,
                        what=f"what topic {name!r} is was not found out",
                    )
                    known = found[name]
        return known

    def known(self, name: str) -> TopicInfo | None:
        """Return what is known of a topic without asking; None if it has to be asked for."""
        oldest = asyncio.get_running_loop().time() - self.options.metadata_max_age_ms / 1000
        return self.metadata.topic(name, oldest)

    def forget(self, name: str) -> None:
        """Do not use what is known of a topic any more: a broker said that it is stale."""
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
        patient: bool = False,
        timeout_ms: float | None = None,
        backoff: Backoff | None = None,
        what: str = "the call was not answered",
    ) -> Result:
        """Return what `attempt` returns; repeat it while it fails in ways that pass by themselves.

        `also` names further error codes worth waiting for (for `also_for_ms` at most); `patient` waits for
        brokers to come back. When the time is over the attempt under way is cancelled, and TimedOut says
        what was not done and why. Who is not patient, or was answered an error code, gets the last error.
        """
        patient = patient or self.is_patient
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
                        if not passes(error, also if is_in_time else frozenset(), patient):
                            raise
                        if not isinstance(error, KafkaError) or error.code in STALE_SIGNS:
                            self.metadata.mark_all_stale()
                        pause_s = attempts.pause_after(error, patient)
                    await asyncio.sleep(pause_s)
        except TimeoutError:
            if not limit.expired():
                raise
            if attempts.is_pausing:  # nothing is under way: it is the last failure that counts
                attempts.give_up(patient)
            raise attempts.timed_out() from attempts.last
        finally:
            _under_way.reset(outer)

    async def _ask(self, names: Sequence[str] | None, create: bool) -> Sequence[MetadataResponseTopic]:
        """Ask for metadata, take over the brokers, and return what was said of each topic."""
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
"""The call that is being repeated, of which others may be a part."""


class _Attempts:
    """Counts the attempts of one call, and says when and why to give it up."""

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
        """Return for how long it has been tried."""
        return (self._loop.time() - self._began) * 1000

    def pause_after(self, error: KafkaError | ClientError, patient: bool) -> float:
        """Return the seconds until the next attempt; raise if the time would be over then."""
        self._count(error)
        pause_s = self._backoff.pause_ms(self.failures) / 1000
        self.is_pausing = True
        if self._loop.time() + pause_s > self.deadline:
            self.give_up(patient)
        return pause_s

    def give_up(self, patient: bool) -> NoReturn:
        """Raise the last failure; TimedOut for who is patient and got no answer."""
        assert self.last is not None
        if patient and isinstance(self.last, ClientError):
            raise self.timed_out() from self.last
        raise self.last

    def _count(self, error: KafkaError | ClientError) -> None:
        """Take note of a failure, also in the call that this one is a part of: it may end first."""
        self.failures += 1
        self.last = error
        if self._outer is not None:
            self._outer._count(error)

    def timed_out(self) -> TimedOut:
        """Return the error that says what was not done, why, and what to do about it."""
        if isinstance(self.last, TimedOut):
            return self.last
        tried = f"{self._what} within {self._timeout_ms / 1000:g} s"
        if self.last is None:
            return TimedOut(
                f"{tried}: the brokers take longer than that; see their logs, or give it more time"
            )
        why = str(self.last) or meaning_of(self.last.code if isinstance(self.last, KafkaError) else -1)
        hint = ""
        if isinstance(self.last, BrokerUnreachable):
            hint = " (start the brokers, or correct the addresses)"
        return TimedOut(f"{tried}, {self.failures} attempts failed, the last one with: {why}{hint}")


def passes(
    error: KafkaError | ClientError, also: frozenset[ErrorCode] = frozenset(), patient: bool = True
) -> bool:
    """Return whether an error passes by itself, so that what failed is worth another try."""
    if isinstance(error, KafkaError):
        return error.code in TRANSIENT or error.code in also
    return isinstance(error, ConnectionLost) or (patient and isinstance(error, BrokerUnreachable | NoLeader))


def _by_name(name: str) -> MetadataRequestTopic:
    return MetadataRequestTopic(topic_id=None, name=TopicName(name))
