"""Fetch everything that this broker follows from one leader: one connection, one request at a time.

A request contains what changed since the last one (wire/fetch_session.py); the leader responds as soon as it
has data, at the latest after replica.fetch.wait.max.ms. A fetch reports that everything before its offset is
written here, so with flush.messages=1 a partition is flushed before it is fetched again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.log.directories.flusher import Flusher
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ERRORS, KafkaError, UnknownServerError
from ottla.protocol.fetch_client import (
    LAST_VERSION,
    FetchReply,
    FetchSettings,
    decode_fetch_response,
    encode_fetch_request,
)
from ottla.replication.follower import FollowerState, schedule_retry
from ottla.replication.partition import Partition
from ottla.wire.backoff import Backoff
from ottla.wire.fetch_session import FetchPosition, FetchSession
from ottla.wire.peers import Peers

logger = logging.getLogger(__name__)

Key = tuple[UUID, int]
"""A partition: its topic's id, and its index."""

CHANNEL = "fetch"
MIN_BACKOFF_MS = 50
READ_UNCOMMITTED = 0
NO_TOPIC_ID = UUID(int=0)
INTERRUPT_AFTER_MS = 20
"""How long to wait for more partitions before a running fetch is interrupted to include new ones."""
MAX_BYTES_PER_ITERATION = 1 << 20
"""How much is appended before yielding to the loop."""


class Throttle(Protocol):
    """Limits the replication of partitions that are being moved."""

    def is_throttled(self, partition: Partition) -> bool:
        """Return whether a partition must not be fetched now."""
        ...

    def record_bytes(self, partition: Partition, size_bytes: int) -> None:
        """Count the bytes fetched of a partition."""
        ...


class ReplicaFetcher:
    """Fetches from one leader. `run` is a task of its owner."""

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
        """The partitions of the running fetch."""
        self._interruption: asyncio.TimerHandle | None = None
        self._was_interrupted = False

    def follow(self, follower_state: FollowerState) -> None:
        """Add a partition to the next fetch."""
        partition = follower_state.partition
        self.followed[partition.topic_id, partition.topic_partition.partition] = follower_state
        self._changed.set()
        if self._fetching and self._interruption is None:
            # The leader may hold the fetch in flight for long, and this partition's producers wait.
            loop = asyncio.get_running_loop()
            self._interruption = loop.call_later(INTERRUPT_AFTER_MS / 1000, self._interrupt)

    def unfollow(self, topic_id: UUID, index: int) -> None:
        """Stop fetching a partition."""
        self.followed.pop((topic_id, index), None)

    def _interrupt(self) -> None:
        """Interrupt a fetch that does not include all partitions; the next one does."""
        self._interruption = None
        if self._fetching and not self.followed.keys() <= self._fetching.keys():
            self._was_interrupted = True
            self._peers.close(self.leader, CHANNEL, "interrupted to fetch more partitions")

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            try:
                await self._flush_followed()
                wanted = self._wanted() if self._broker_epoch() >= 0 else {}
                if not wanted:
                    await self._wait_for_work()
                    continue
                response = await self._fetch(wanted)
                self._failures = 0
                await self._apply_response(wanted, response)
            except KafkaError as error:
                self._session.reset()
                await self._back_off(error)
            except Exception:
                logger.exception("fetching from broker %d failed", self.leader)
                self._session.reset()
                await asyncio.sleep(self._config().replica_fetch_backoff_ms / 1000)

    def _wanted(self) -> dict[Key, FetchPosition]:
        now_ms, max_bytes = self._clock.mono_ms(), self._config().replica_fetch_max_bytes
        return {
            key: follower_state.next_fetch(max_bytes)
            for key, follower_state in self.followed.items()
            if follower_state.retry_at_ms <= now_ms
            and not follower_state.needs_flush
            and (follower_state.is_in_sync or not self._throttle.is_throttled(follower_state.partition))
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
        """Return the time until a partition that is backing off may be fetched again."""
        now_ms = self._clock.mono_ms()
        waits = [each.retry_at_ms - now_ms for each in self.followed.values() if each.retry_at_ms > now_ms]
        return min([MIN_BACKOFF_MS * 2, *waits]) if len(waits) < len(self.followed) else max(1, min(waits))

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
            frame, body_position = await self._peers.exchange(
                self.leader,
                ApiKey.FETCH,
                LAST_VERSION,
                body,
                timeout_ms=config.replica_socket_timeout_ms,
                channel=CHANNEL,
            )
        finally:
            self._fetching = {}
        response = decode_fetch_response(frame, body_position, LAST_VERSION)
        if response.error_code:
            error = ERRORS.get(response.error_code, UnknownServerError)  # type: ignore[call-overload]
            raise error(f"broker {self.leader} rejected a fetch")
        self._session.succeeded(response.session_id)
        return response

    async def _apply_response(self, wanted: dict[Key, FetchPosition], response: FetchReply) -> None:
        taken = 0
        results = ((topic_id, each) for _, topic_id, partitions in response.topics for each in partitions)
        for topic_id, result in results:
            key = (topic_id or NO_TOPIC_ID, result.partition)
            follower_state, requested = self.followed.get(key), wanted.get(key)
            if follower_state is None or requested is None:
                continue
            try:
                size = follower_state.apply_result(requested.request, result)
            except KafkaError as error:
                schedule_retry(
                    follower_state, error, self._clock.mono_ms(), self._config().replica_fetch_backoff_ms
                )
                continue
            follower_state.failures = 0
            if size and not follower_state.is_in_sync:
                self._throttle.record_bytes(follower_state.partition, size)
            taken += size
            if taken >= MAX_BYTES_PER_ITERATION:
                taken = 0
                await asyncio.sleep(0)

    async def _flush_followed(self) -> None:
        """Flush what the next fetch will report as written."""
        unflushed = [each for each in self.followed.values() if each.needs_flush]
        if not unflushed:
            return
        flushes = [
            self._flusher.flush_up_to(each.partition.log, each.partition.log.log_end_offset)
            for each in unflushed
        ]
        results = await asyncio.gather(*flushes, return_exceptions=True)
        for follower_state, result in zip(unflushed, results, strict=True):
            if isinstance(result, KafkaError):
                schedule_retry(
                    follower_state, result, self._clock.mono_ms(), self._config().replica_fetch_backoff_ms
                )
            elif isinstance(result, BaseException):
                raise result

    async def _back_off(self, error: KafkaError) -> None:
        if self._was_interrupted:
            self._was_interrupted = False
            return
        if self._failures == 0:
            logger.info("cannot fetch from broker %d, retrying: %r", self.leader, error)
        self._failures += 1
        max_ms = max(MIN_BACKOFF_MS, self._config().replica_fetch_backoff_ms)
        await asyncio.sleep(Backoff(MIN_BACKOFF_MS, max_ms, jitter=0).pause_ms(self._failures) / 1000)
