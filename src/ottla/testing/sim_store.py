"""One broker's connection to the metadata store of a simulation: it takes time, both ways.

A call takes effect somewhere between its beginning and its end. A broker that dies in between may have
changed the metadata without knowing it; one that is cut off meanwhile waits for the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.metadata.memory import MemoryStore
from ottla.metadata.records import MetadataRecord
from ottla.metadata.registration import BrokerRegistration
from ottla.metadata.store import NO_REGISTRATION, Session, StoreUnavailable


class SimStore(MemoryStore):
    """A `MemoryStore` whose answers take their time."""

    async def append(
        self, records: Sequence[MetadataRecord], *, expected_version: int, controller_epoch: int
    ) -> int:
        """Append one entry and return its version."""
        version = await super().append(
            records, expected_version=expected_version, controller_epoch=controller_epoch
        )
        await self._answer_arrives()
        return version

    async def open_session(self, node_id: int, registration: BrokerRegistration = NO_REGISTRATION) -> Session:
        """Take a lease for a broker."""
        session = await super().open_session(node_id, registration)
        await self._answer_arrives()
        return session

    async def _answer_arrives(self) -> None:
        await asyncio.sleep(self.server.latency())
        cut = self.server.cut_until(self.node_id)
        if cut is not None:
            # The connection is broken, and with it the answer.
            await asyncio.sleep(self.server.session_timeout_s / 2)
            raise StoreUnavailable("the answer of the store was lost")
