"""The `_schemas` topic on Apache Kafka, which cannot append conditionally: one elected process writes.

The election alone would not do: a process that was paused may believe that it is still elected. So it
writes in transactions of one transactional id: the elected process takes the id over and fences the others.
A batch that does not land where it was expected is aborted, which is a conditional append again. Readers
see committed records only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from ottla.client import AsyncProducer, ClientError, KafkaError, ProducerOptions
from ottla.client.client_options import ClientOptions
from ottla.protocol.errors import MessageTooLarge, RecordListTooLarge
from ottla.registry.election import Election
from ottla.registry.kafka_topic import WRITE_HEADER, KafkaTopic
from ottla.registry.topic import Conflict, Read, RecordTooLarge, Unavailable

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 0.05
"""There is no notification of a transaction's marker: the reader polls for it."""


class ElectedTopic(KafkaTopic):
    """A partition that the elected process writes to."""

    reads_before_writes = True

    def __init__(self, options: ClientOptions, name: str, url: str, election: Election | None = None) -> None:
        """Take the election of another topic of this process, or stand for one."""
        super().__init__(options, name, read_committed=True)
        self._stands = election is None
        self.election = election or Election(self.cluster, url)
        self._options = options
        self._producer: AsyncProducer | None = None

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self._stands:
            await self.election.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stands:
            await self.election.__aexit__(kind, error, trace)
        await self._drop_producer()
        await super().__aexit__(kind, error, trace)

    async def read(self, timeout_s: float) -> Read:
        """Return the next committed records, soon, even if there are none."""
        return await super().read(min(timeout_s, READ_TIMEOUT_S))

    async def append(
        self, records: Sequence[tuple[bytes, bytes | None]], expected: int, write_id: bytes, now_ms: int
    ) -> int:
        """Append records in a transaction, which is aborted if they do not land at `expected`."""
        if not self.election.is_leader:
            await self._drop_producer()
            raise Unavailable("another process is elected now")
        try:
            producer = await self._elected_producer()
            async with producer.transaction():
                deliveries = [
                    await producer.send(
                        self.name,
                        value,
                        key,
                        partition=0,
                        timestamp_ms=now_ms,
                        headers=((WRITE_HEADER, write_id),),
                    )
                    for key, value in records
                ]
                landed = [(await each).offset for each in deliveries]
                if landed != list(range(expected, expected + len(records))):
                    raise Conflict
        except (MessageTooLarge, RecordListTooLarge):
            raise RecordTooLarge from None
        except (KafkaError, ClientError) as error:
            await self._drop_producer()
            raise Unavailable(str(error)) from None
        return expected

    async def _elected_producer(self) -> AsyncProducer:
        """Return a producer that has fenced those of earlier writers."""
        if self._producer is None:
            options = {
                name: getattr(self._options, name)
                for name in self._options.declared()
                if name in ProducerOptions.declared()
            }
            options |= {"transactional_id": f"ottla-registry{self.name}", "linger_ms": 0}
            producer = AsyncProducer(**options)
            try:
                await producer.start()
                await producer.init_transactions()
            except BaseException:
                await producer.close()
                raise
            self._producer = producer
        return self._producer

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                async with asyncio.timeout(5):
                    await producer.close()
            except (KafkaError, ClientError, TimeoutError) as error:
                log.info("a producer could not be closed in good order: %s", error)
