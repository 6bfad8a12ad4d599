"""Producer ids of an idempotent producer without transactions: one for all its partitions, mostly.

Such a producer counts its epochs itself, each partition for its own. A partition that has used them up,
which takes 32,767 failures, gets another id.
"""

from __future__ import annotations

import asyncio

from kio.schema.init_producer_id.v4 import InitProducerIdRequest, InitProducerIdResponse

from ottla.client.cluster import Cluster
from ottla.client.connection import milliseconds
from ottla.client.errors import raise_for
from ottla.client.producer.batch import Identity

_UNUSED_TIMEOUT = milliseconds(60_000)


class Identities:
    """Asks for producer ids when they are needed."""

    def __init__(self, cluster: Cluster, request_timeout_ms: int) -> None:
        self._cluster = cluster
        self._request_timeout_ms = request_timeout_ms
        self._current = Identity()
        self._asking = asyncio.Lock()

    async def other_than(self, used: Identity) -> Identity:
        """Return an identity with another producer id than this one."""
        async with self._asking:
            if self._current.producer_id in (Identity().producer_id, used.producer_id):
                self._current = await self._ask()
            return self._current

    async def _ask(self) -> Identity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout=_UNUSED_TIMEOUT)
        connection = await self._cluster.any_broker()
        response = await connection.request(
            request, InitProducerIdResponse, timeout_ms=self._request_timeout_ms
        )
        raise_for(response.error_code, "the broker gave no producer id")
        return Identity(response.producer_id, response.producer_epoch)
