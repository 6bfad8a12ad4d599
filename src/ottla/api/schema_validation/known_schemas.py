"""Remember which subjects a schema belongs to, as the registry said.

What a schema is never changes, and it leaves a subject only if it is deleted there, so a good answer counts
for KNOWN_S; while no registry answers, for longer. A bad one never counts for a later batch: a serializer may
have registered the schema just before it sent the batch. But a schema is asked for no more often than every
PAUSE_S: a producer with bad records waits, and does not become a flood of requests.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.api.schema_validation.named_records import SchemaName
from ottla.api.schema_validation.record_names import AVRO, RecordNames, record_names
from ottla.api.schema_validation.registry_http import RegistryUnavailable

KNOWN_S = 300.0
PAUSE_S = 0.1
MAX_KNOWN = 10_000
NOT_FOUND = 404
DEFAULT_CONTEXT = "."


class Http(Protocol):
    """What asks a registry."""

    async def get(self, path: str) -> tuple[int, Any]:
        """Return status and JSON value."""
        ...


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """A schema, as the registry described it."""

    schema_id: int
    subjects: frozenset[str]
    """Empty if there is no such schema."""
    names: RecordNames
    """How subjects may be named after it."""
    asked_ms: float


Judge = Callable[[KnownSchema], bool]


class KnownSchemas:
    """Schemas by id or GUID, the least recently used forgotten first."""

    def __init__(self, http: Http, now_ms: Callable[[], float]) -> None:
        self._http = http
        self._now_ms = now_ms
        self._known: OrderedDict[SchemaName, KnownSchema] = OrderedDict()
        self._asking: dict[SchemaName, asyncio.Task[KnownSchema]] = {}

    def get(self, name: SchemaName, is_good: Judge) -> KnownSchema | None:
        """Return a schema if it is known to be good, and need not be asked for again."""
        found = self._known.get(name)
        if found is None or self._now_ms() - found.asked_ms > KNOWN_S * 1000 or not is_good(found):
            return None
        self._known.move_to_end(name)
        return found

    async def ask(self, name: SchemaName, is_good: Judge) -> KnownSchema:
        """Ask a registry now, once for all callers; RegistryUnavailable if none has ever answered."""
        began_ms = self._now_ms()
        try:
            while True:
                found = await asyncio.shield(self._asking.get(name) or self._start(name))
                if found.asked_ms >= began_ms or is_good(found):
                    return found
        except RegistryUnavailable:
            before = self._known.get(name)
            if before is not None and is_good(before):
                return before
            raise

    def _start(self, name: SchemaName) -> asyncio.Task[KnownSchema]:
        task = asyncio.get_running_loop().create_task(self._learn(name), name="ask for a schema")
        task.add_done_callback(_retrieved)
        self._asking[name] = task
        return task

    def stop(self) -> None:
        """Ask no more."""
        for task in list(self._asking.values()):
            task.cancel()

    async def _learn(self, name: SchemaName) -> KnownSchema:
        try:
            found = self._known[name] = await self._ask(name)
        finally:
            del self._asking[name]
        self._known.move_to_end(name)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return found

    async def _ask(self, name: SchemaName) -> KnownSchema:
        before = self._known.get(name)
        if before is not None:
            await asyncio.sleep(before.asked_ms / 1000 + PAUSE_S - self._now_ms() / 1000)
        asked_ms = self._now_ms()
        schema_id = name if isinstance(name, int) else await self._id_of(name)
        status, subjects = 404, None
        if schema_id is not None:
            status, subjects = await self._http.get(f"/schemas/ids/{schema_id}/subjects")
        if status == NOT_FOUND or schema_id is None:
            return KnownSchema(-1, frozenset(), None, asked_ms)
        if status != 200 or not isinstance(subjects, list):
            raise RegistryUnavailable(f"unexpected answer {status}")
        status, schema = await self._http.get(f"/schemas/ids/{schema_id}")
        if status != 200 or not isinstance(schema, dict):
            raise RegistryUnavailable(f"unexpected answer {status}")
        kind, text = schema.get("schemaType", AVRO), str(schema.get("schema", ""))
        names = await asyncio.get_running_loop().run_in_executor(None, record_names, kind, text)
        return KnownSchema(schema_id, frozenset(map(str, subjects)), names, asked_ms)

    async def _id_of(self, guid: str) -> int | None:
        status, ids = await self._http.get(f"/schemas/guids/{guid}/ids")
        if status != 200 or not isinstance(ids, list):
            if status == NOT_FOUND:
                return None
            raise RegistryUnavailable(f"unexpected answer {status}")
        return next((int(each["id"]) for each in ids if each.get("context") == DEFAULT_CONTEXT), None)


def _retrieved(task: asyncio.Task[KnownSchema]) -> None:
    """Mark the exception as retrieved: all who waited may have been cancelled."""
    if not task.cancelled():
        task.exception()
