"""Fetches everything that this broker follows of one leader: one connection, one request at a time.

The request names what changed since the last one (wire/fetch_session.py); the leader answers as soon as it
has something, at the latest after replica.fetch.wait.max.ms. A fetch says that all before its offset is
written here, so with flush-on-ack a partition is flushed before it is fetched again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.log.flusher import Flusher
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ERRORS, KafkaError, UnknownServerError
from ottla.protocol.fetch_client import (
    LAST_VERSION,
    FetchReply,
    FetchSettings,
    decode_fetch_response,
    encode_fetch_request,
)
from ottla.replication.follower import FollowerState, retry_later
from ottla.replication.partition import Partition
from ottla.wire.backoff import Backoff
from ottla.wire.fetch_session import FetchPosition, FetchSession
from ottla.wire.peers import Peers

log = logging.getLogger(__name__)

Key = tuple[UUID, int]
"""A partition: its topic's id, and its index."""

CHANNEL = "fetch"
FIRST_BACKOFF_MS = 50
READ_UNCOMMITTED = 0
NO_TOPIC_ID = UUID(int=0)
INTERRUPT_AFTER_MS = 20
"""How long to wait for more partitions before a fetch is broken off for the sake of new ones."""
BYTES_PER_TURN = 1 << 20
"""How much is appended before other work gets its turn."""


class Throttle(Protocol):
    """Slows down partitions that are being moved."""

    def holds(self, partition: Partition) -> bool:
        """Return whether a partition must not be fetched now."""
        ...

    def took(self, partition: Partition, size_bytes: int) -> None:
        """Count what was fetched of a partition."""
        ...


class ReplicaFetcher:
    """Follows one leader. `run` is a task of its owner's."""

    def __init__(
        self,
        leader: int,
        node_id: int,
        peers: Peers,
        flusher: Flusher,
        clock: Clock,
        config: Callable[[], BrokerConfig],
        broker_epoch: Callable[[], int],
        throttle: Throttle,
    ) -> None:
        self.leader = leader
        self.followed: dict[Key, FollowerState] = {}
        self._node_id = node_id
        self._peers = peers
        self._flusher = flusher
        self._clock = clock
        self._config = config
        self._broker_epoch = broker_epoch
        self._throttle = throttle
        self._session = FetchSession[Key]()
        self._changed = asyncio.Event()
        self._failures = 0
        self._fetching: dict[Key, FetchPosition] = {}
        """What the fetch under way names."""
        self._interruption: asyncio.TimerHandle | None = None
        self._was_interrupted = False

    def follow(self, following: FollowerState) -> None:
        """Fetch a partition, too, from now on."""
        partition = following.partition
        self.followed[partition.topic_id, partition.topic_partition.partition] = following
        self._changed.set()
        if self._fetching and self._interruption is None:
            # The leader may keep the fetch under way for long, and this partition's producers wait.
            loop = asyncio.get_running_loop()
            self._interruption = loop.call_later(INTERRUPT_AFTER_MS / 1000, self._interrupt)

    def leave(self, topic_id: UUID, index: int) -> None:
        """Fetch a partition no longer."""
        self.followed.pop((topic_id, index), None)

    def _interrupt(self) -> None:
        """Break off a fetch that does not name all partitions; the next one does."""
        self._interruption = None
        if self._fetching and not self.followed.keys() <= self._fetching.keys():
            self._was_interrupted = True
            self._peers.close(self.leader, CHANNEL, "there is more to fetch")

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            try:
                await self._flush_first()
                wanted = self._wanted() if self._broker_epoch() >= 0 else {}
                if not wanted:
                    await self._wait_for_work()
                    continue
                response = await self._fetch(wanted)
                self._failures = 0
                await self._take(wanted, response)
            except KafkaError as error:
                self._session.reset()
                await self._back_off(error)
            except Exception:
                log.exception("fetching from broker %d failed", self.leader)
                self._session.reset()
                await asyncio.sleep(self._config().replica_fetch_backoff_ms / 1000)

    def _wanted(self) -> dict[Key, FetchPosition]:
        now_ms, max_bytes = self._clock.mono_ms(), self._config().replica_fetch_max_bytes
        return {
            key: following.next_fetch(max_bytes)
            for key, following in self.followed.items()
            if following.not_before_ms <= now_ms
            and not following.needs_flush
            and (following.is_in_sync or not self._throttle.holds(following.partition))
        }

    async def _wait_for_work(self) -> None:
        """Wait until there is another partition, or one may be fetched again."""
        self._changed.clear()
        try:
            async with asyncio.timeout(self._pause_ms() / 1000 if self.followed else None):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _pause_ms(self) -> int:
        """Return when, at the earliest, a partition that is left alone may be fetched again."""
        now_ms = self._clock.mono_ms()
        waits = [
            each.not_before_ms - now_ms for each in self.followed.values() if each.not_before_ms > now_ms
        ]
        return min([FIRST_BACKOFF_MS * 2, *waits]) if len(waits) < len(self.followed) else max(1, min(waits))

    async def _fetch(self, wanted: dict[Key, FetchPosition]) -> FetchReply:
        config = self._config()
        max_wait_ms = config.replica_fetch_wait_max_ms
        if len(wanted) < len(self.followed):
            max_wait_ms = min(max_wait_ms, self._pause_ms())
        settings = FetchSettings(
            max_wait_ms,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            READ_UNCOMMITTED,
            replica=(self._node_id, self._broker_epoch()),
        )
        body = encode_fetch_request(LAST_VERSION, settings, *self._session.prepare(wanted, LAST_VERSION))
        self._fetching = wanted
        try:
            frame, at = await self._peers.exchange(
                self.leader,
                ApiKey.FETCH,
                LAST_VERSION,
                body,
                timeout_ms=config.replica_socket_timeout_ms,
                channel=CHANNEL,
            )
        finally:
            self._fetching = {}
        response = decode_fetch_response(frame, at, LAST_VERSION)
        if response.error_code:
            error = ERRORS.get(response.error_code, UnknownServerError)  # type: ignore[call-overload]
            raise error(f"broker {self.leader} refused a fetch")
        self._session.succeeded(response.session_id)
        return response

    async def _take(self, wanted: dict[Key, FetchPosition], response: FetchReply) -> None:
        taken = 0
        results = ((topic_id, each) for _, topic_id, partitions in response.topics for each in partitions)
        for topic_id, result in results:
            key = (topic_id or NO_TOPIC_ID, result.partition)
            following, asked = self.followed.get(key), wanted.get(key)
            if following is None or asked is None:
                continue
            try:
                size = following.take(asked.request, result)
            except KafkaError as error:
                retry_later(following, error, self._clock.mono_ms(), self._config().replica_fetch_backoff_ms)
                continue
            following.failures = 0
            if size and not following.is_in_sync:
                self._throttle.took(following.partition, size)
            taken += size
            if taken >= BYTES_PER_TURN:
                taken = 0
                await asyncio.sleep(0)

    async def _flush_first(self) -> None:
        """Put on the disk what the next fetch will say is there."""
        unflushed = [each for each in self.followed.values() if each.needs_flush]
        if not unflushed:
            return
        flushes = [
            self._flusher.flush_up_to(each.partition.log, each.partition.log.log_end_offset)
            for each in unflushed
        ]
        results = await asyncio.gather(*flushes, return_exceptions=True)
        for following, result in zip(unflushed, results, strict=True):
            if isinstance(result, KafkaError):
                retry_later(following, result, self._clock.mono_ms(), self._config().replica_fetch_backoff_ms)
            elif isinstance(result, BaseException):
                raise result

    async def _back_off(self, error: KafkaError) -> None:
        if self._was_interrupted:
            self._was_interrupted = False
            return
        if self._failures == 0:
            log.info("cannot fetch from broker %d now: %r", self.leader, error)
        self._failures += 1
        max_ms = max(FIRST_BACKOFF_MS, self._config().replica_fetch_backoff_ms)
        await asyncio.sleep(Backoff(FIRST_BACKOFF_MS, max_ms, jitter=0).pause_ms(self._failures) / 1000)
