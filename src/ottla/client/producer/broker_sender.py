"""Sends batches to one broker, and passes the responses on to the `Sender`.

When it is woken (by records, a response or a timer) it sends requests until nothing is ready or
max_in_flight_requests_per_connection are in flight. Usually that needs no waiting and is done by a plain
function in the next iteration of the loop, sooner than a task would run. What needs waiting (a connection, a
producer id, a full socket, compression in a thread) is left to the task; while the task is at work it alone
sends, so that the order is kept.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.client.producer.batch import Batch
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError, UnsupportedCompressionType
from ottla.protocol.primitives import Buffer
from ottla.protocol.produce_client import encode_produce_request
from ottla.wire.calls import PRODUCE_GRACE_MS, decode_produce
from ottla.wire.connection import Connection, Response

if TYPE_CHECKING:
    from ottla.client.producer.sender import Sender

ZSTD = 4
FIRST_VERSION_WITH_ZSTD = 7
COMPRESSED_IN_A_THREAD_BYTES = 32_768
"""How much longer than the broker may take we wait for its answer, before the connection is given up."""


def _encode_all(batches: list[Batch], codec: int) -> None:
    for batch in batches:
        batch.encode(codec)


class BrokerSender:
    """Sends batches to one broker."""

    def __init__(self, node_id: int, sender: Sender) -> None:
        self.node_id = node_id
        self._sender = sender
        self._options = sender.options
        self._loop = asyncio.get_running_loop()
        self._work = asyncio.Event()
        """Set while there is work for the task."""
        self._is_woken = False
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._in_flight = 0
        self._failures = 0

    def wake(self) -> None:
        """Send soon what is ready; if the task is at work, when it is done."""
        if not self._is_woken:
            self._is_woken = True
            if not self._work.is_set():
                self._loop.call_soon(self.send_now)

    def send_now(self) -> None:
        """Send what needs no waiting; leave the rest to the task."""
        if self._work.is_set():
            return
        self._is_woken = False
        sender = self._sender
        if self._is_stopped or not self._has_room or not sender.has_work_for(self.node_id):
            return
        connection = sender.cluster.open_connection(self.node_id)
        if self._failures or connection is None or sender.codec:
            self._work.set()
            return
        while self._has_room and connection.is_ready:
            batches, next_at = sender.take(self.node_id)
            if next_at is not None:
                self._wake_at(next_at)
            if not batches:
                break
            _encode_all(batches, sender.codec)
            self._send(connection, batches)
            if not sender.has_work_for(self.node_id):
                return
        if self._has_room and (not connection.is_ready or sender.needs_identities(self.node_id)):
            self._work.set()

    @property
    def _has_room(self) -> bool:
        return self._in_flight < self._options.max_in_flight_requests_per_connection

    async def run(self) -> None:
        """Send what needs waiting, until cancelled."""
        while True:
            await self._work.wait()
            try:
                await self._send_ready()
                self._failures = 0
            except (KafkaError, ClientError) as error:
                self._failures += 1
                self._sender.cannot_send(self.node_id, error)
                self._wake_at(
                    self._loop.time() + self._sender.cluster.backoff.pause_ms(self._failures) / 1000
                )
            finally:
                self._work.clear()
            if self._is_woken:
                self._loop.call_soon(self.send_now)

    async def _send_ready(self) -> None:
        sender = self._sender
        connection: Connection | None = None
        while self._has_room:
            if connection is None:
                if not sender.has_work_for(self.node_id):
                    return
                connection = await sender.cluster.broker(self.node_id)
                await sender.provide_identities(self.node_id)
            await connection.ready()
            batches, next_at = sender.take(self.node_id)
            if next_at is not None:
                self._wake_at(next_at)
            if not batches:
                return
            await self._encode(batches)
            self._send(connection, batches)

    async def _encode(self, batches: list[Batch]) -> None:
        """Encode batches; compress large ones in a thread, so that the loop is not blocked."""
        codec = self._sender.codec
        if codec and sum(batch.size_bytes for batch in batches) >= COMPRESSED_IN_A_THREAD_BYTES:
            with suppress(RuntimeError):  # the interpreter shuts down and starts no more threads
                await self._loop.run_in_executor(None, _encode_all, batches, codec)
        _encode_all(batches, codec)  # those that are not encoded yet

    def _send(self, connection: Connection, batches: list[Batch]) -> None:
        """Write one request; errors are reported for its batches, not raised."""
        try:
            version = self._version(connection)
            topics: dict[str, list[tuple[int, Buffer]]] = {}
            for batch in batches:
                if batch.encoded is not None:  # otherwise it has expired
                    name, partition = batch.partition
                    topics.setdefault(name, []).append((partition, batch.encoded))
            acks, timeout_ms = self._options.acks_number, self._options.request_timeout_ms
            body = encode_produce_request(version, self._sender.transactional_id, acks, timeout_ms, topics)
            if acks == 0:
                connection.send_without_response(ApiKey.PRODUCE, version, body)
                self._sender.sent_without_answer(batches)
                return
            then = partial(self._answered, connection, version, batches)
            connection.send_callback(ApiKey.PRODUCE, version, body, timeout_ms + PRODUCE_GRACE_MS, then)
        except (KafkaError, ClientError) as error:
            self._sender.request_failed(batches, error, may_be_stored=False)
            return
        self._in_flight += 1

    def _version(self, connection: Connection) -> int:
        version = connection.version_of(ApiKey.PRODUCE, self._sender.newest_version)
        if self._sender.codec == ZSTD and version < FIRST_VERSION_WITH_ZSTD:
            raise UnsupportedCompressionType(f"{connection.address} is too old for zstd; use lz4 instead")
        return version

    def _answered(
        self,
        connection: Connection,
        version: int,
        batches: list[Batch],
        response: Response | None,
        error: ClientError | None,
    ) -> None:
        self._in_flight -= 1
        if self._is_stopped:
            return  # the producer was stopped
        if self._sender.has_work_for(self.node_id):  # batches to retry wake it themselves
            self.wake()
        if response is None:
            assert error is not None
            self._sender.request_failed(batches, error, may_be_stored=True)
            return
        try:
            results, endpoints = decode_produce(connection, response, version)
        except ClientError as garbled:
            self._sender.request_failed(batches, garbled, may_be_stored=True)
            return
        self._sender.answered(batches, results, endpoints)

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None  # it may fire a little early: then it is set again
        self.wake()

    def stop(self) -> None:
        """Send no more, and cancel the timer."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
