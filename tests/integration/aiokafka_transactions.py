"""aiokafka behind the interface of `transactions.py`: its coroutines run in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.integration.aiokafka_client import AiokafkaLoop
from tests.integration.clients import Outgoing, Place
from tests.integration.transactions import (
    Reader,
    TransactionalProducer,
    TransactionLibrary,
    TransactionOptions,
)

from ottla.common.tasks import cancel_and_wait


class AiokafkaTransactions(TransactionalProducer):
    def __init__(self, address: str, options: TransactionOptions) -> None:
        self._loop = AiokafkaLoop()
        try:
            self._loop.run(self._start(address, options))
        except BaseException:
            self._loop.stop()
            raise

    async def _start(self, address: str, options: TransactionOptions) -> None:
        self._library = AIOKafkaProducer(
            bootstrap_servers=address,
            transactional_id=options.transactional_id,
            transaction_timeout_ms=options.timeout_ms,
            request_timeout_ms=options.request_timeout_ms,
            linger_ms=5,
            retry_backoff_ms=20,
        )
        try:
            await self._library.start()
        except BaseException:
            await self._library.stop()
            raise

    def begin(self) -> None:
        self._loop.run(self._library.begin_transaction())

    def send(self, topic: str, records: Sequence[Outgoing]) -> None:
        self._loop.run(self._send(topic, records))

    async def _send(self, topic: str, records: Sequence[Outgoing]) -> None:
        futures = [
            await self._library.send(topic, value=one.value, key=one.key, partition=one.partition)
            for one in records
        ]
        await asyncio.gather(*futures)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        wanted = {TopicPartition(*place): offset for place, offset in offsets.items()}
        self._loop.run(self._library.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        self._loop.run(self._library.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._library.abort_transaction())

    def close(self) -> None:
        self._loop.run(self._close())
        self._loop.stop()

    async def _close(self) -> None:
        # Its own stop() would first wait for what was not sent, and raise what has failed before.
        sender = self._library._sender.sender_task
        await cancel_and_wait(sender)
        await self._library.client.close()
        self._library._closed = True


class AiokafkaReader(Reader):
    def __init__(self, address: str, group: str, committed: bool) -> None:
        self._loop = AiokafkaLoop()
        self._loop.run(self._start(address, group, committed))

    async def _start(self, address: str, group: str, committed: bool) -> None:
        self._library = AIOKafkaConsumer(
            bootstrap_servers=address,
            group_id=group,
            isolation_level="read_committed" if committed else "read_uncommitted",
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=100,
            retry_backoff_ms=20,
        )
        await self._library.start()

    def assign(self, positions: Mapping[Place, int]) -> None:
        self._loop.run(self._assign(positions))

    async def _assign(self, positions: Mapping[Place, int]) -> None:
        self._library.assign([TopicPartition(*place) for place in positions])
        for place, offset in positions.items():
            self._library.seek(TopicPartition(*place), offset)

    def poll(self, timeout_s: float) -> list[tuple[Place, int, bytes]]:
        polled = self._loop.run(self._library.getmany(timeout_ms=int(timeout_s * 1000)))
        return [
            ((one.topic, one.partition), one.offset, one.value)
            for records in polled.values()
            for one in records
        ]

    def end(self, place: Place) -> int:
        asked = TopicPartition(*place)
        return self._loop.run(self._library.end_offsets([asked]))[asked]

    def committed(self, place: Place) -> int | None:
        return self._loop.run(self._library.committed(TopicPartition(*place)))

    def close(self) -> None:
        self._loop.run(self._library.stop())
        self._loop.stop()


# It adds the first group of a transaction to it, and forgets to add the others.
AIOKAFKA = TransactionLibrary("aiokafka", AiokafkaTransactions, AiokafkaReader, groups_at_once=1)
