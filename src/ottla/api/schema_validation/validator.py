"""Check the schemas that the records of a batch name, before the batch is appended.

A batch whose schemas are known is checked at once. Otherwise its connection waits for the registry, and other
connections do not. While no registry answers, batches with schemas that are not known yet are refused with an
error on which producers try again; nothing is appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.api.schema_validation.known_schemas import Judge, KnownSchema, KnownSchemas
from ottla.api.schema_validation.named_records import (
    Named,
    NamedRecords,
    Refusals,
    SchemaName,
    find_names,
)
from ottla.api.schema_validation.record_names import Messages
from ottla.api.schema_validation.registry_http import RegistryHttp, RegistryUnavailable
from ottla.api.support.produce_scheduler import Steps
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.schema_keys import RECORD_NAME, TOPIC_NAME
from ottla.common.yielding import yield_to_loop
from ottla.log.log_config import LogConfig
from ottla.log.validator import MAX_INLINE_RECORDS, MAX_NAMED_RECORDS
from ottla.protocol.errors import InvalidRecord, RequestTimedOut
from ottla.protocol.records.batch import BatchHeader
from ottla.protocol.schema_frame import VALUE, MalformedFrame, read_indexes

MAX_LOOK_UPS = 100
"""Schemas of one batch that a registry is asked about; a batch that names more unknown ones is refused."""

MAX_DECODED_BYTES = 4 * 1024 * 1024
"""How much data one request to the registry carries."""

_LENGTH_BYTES = 4


class SchemaValidator:
    """Checks batches of topics with validation, with what a registry said."""

    def __init__(self, config: BrokerConfig, now_ms: Callable[[], float]) -> None:
        urls = config.confluent_schema_registry_url
        self._http: RegistryHttp | None = None
        self._known: KnownSchemas | None = None
        if urls:
            self._http = RegistryHttp(
                urls,
                config.ottla_schema_registry_timeout_ms / 1000,
                config.confluent_basic_auth_user_info,
                config.confluent_ssl_truststore_location,
            )
            self._known = KnownSchemas(self._http, now_ms)

    def stop(self) -> None:
        """Ask no more."""
        if self._known is not None and self._http is not None:
            self._known.stop()
            self._http.stop()

    def check(self, topic: str, batch: memoryview, header: BatchHeader, config: LogConfig) -> Steps[None]:
        """Raise InvalidRecord, which names the bad records; see support/produce_scheduler.py for yields."""
        if header.is_control:
            return
        if self._known is None:
            raise InvalidRecord(f"{topic} validates schemas, but confluent.schema.registry.url is not set")
        if header.codec == 0 and header.record_count <= MAX_INLINE_RECORDS:
            named, refusals = find_names(batch, config)
        else:
            named, refusals = yield partial(find_names, batch, config, yield_to_loop)
        try:
            yield from self._check_names(self._known, topic, named, refusals, config)
            if not refusals and (config.ottla_key_schema_decoding or config.ottla_value_schema_decoding):
                yield from self._decode(self._known, named, refusals, config)
        except RegistryUnavailable as error:
            raise RequestTimedOut(
                f"the schema registry does not answer, so records of {topic} cannot be validated; nothing "
                f"was appended ({error})"
            ) from None
        if refusals:
            raise _rejection(refusals)

    def _check_names(
        self, known: KnownSchemas, topic: str, named: NamedRecords, refusals: Refusals, config: LogConfig
    ) -> Steps[None]:
        """Check that every schema is registered for the subject that its records belong to."""
        found: dict[tuple[str, SchemaName], KnownSchema] = {}
        unknown: dict[tuple[str, SchemaName], Judge] = {}
        for (which, name), records in named.items():
            judge = partial(_is_good, topic, which, records, _strategy(config, which))
            schema = known.get(name, judge)
            if schema is None:
                unknown[which, name] = judge
            else:
                found[which, name] = schema
        if len(unknown) > MAX_LOOK_UPS:
            raise InvalidRecord(f"the batch names {len(unknown)} schemas that are not known yet")
        if unknown:
            asked = yield _all([known.ask(name, judge) for (_, name), judge in unknown.items()])
            found.update(zip(unknown, asked, strict=True))
        for (which, name), schema in found.items():
            records = named[which, name]
            for number, subject in _misplaced(topic, which, records, _strategy(config, which), schema):
                refusals.setdefault(number, _why(which, name, schema, subject))

    def _decode(
        self, known: KnownSchemas, named: NamedRecords, refusals: Refusals, config: LogConfig
    ) -> Steps[None]:
        """Have the registry decode what the topic wants to be decodable."""
        for (which, name), records in named.items():
            wanted = (
                config.ottla_value_schema_decoding if which == VALUE else config.ottla_key_schema_decoding
            )
            if not wanted:
                continue
            schema = known.get(name, lambda _: True)
            if schema is None:
                schema = yield known.ask(name, lambda _: True)
            assert schema is not None
            at = 0
            while at < len(records.rests):
                count, body = _chunk(records.rests, at)
                assert self._http is not None
                status, answer = yield self._http.post(f"/schemas/ids/{schema.schema_id}/decode", body)
                for index, why in _undecodable(status, answer, count):
                    refusals.setdefault(records.numbers[at + index], f"its {which} does not decode: {why}")
                at += count


async def _all(calls: list[Any]) -> list[Any]:
    return await asyncio.gather(*calls)


def _strategy(config: LogConfig, which: str) -> str:
    if which == VALUE:
        return config.confluent_value_subject_name_strategy
    return config.confluent_key_subject_name_strategy


def _is_good(topic: str, which: str, records: Named, strategy: str, schema: KnownSchema) -> bool:
    return not _misplaced(topic, which, records, strategy, schema)


def _misplaced(
    topic: str, which: str, records: Named, strategy: str, schema: KnownSchema
) -> list[tuple[int, str | None]]:
    """Return the records whose schema is not registered for their subject, and that subject."""
    if not isinstance(schema.names, Messages) or strategy == TOPIC_NAME:
        name = None if isinstance(schema.names, Messages) else schema.names
        subject = _subject(topic, which, strategy, name)
        if subject in schema.subjects:
            return []
        return [(number, subject) for number in records.numbers]
    found = []
    for number, rest in zip(records.numbers, records.rests, strict=True):
        try:
            message = schema.names.at(read_indexes(rest)[0])
        except MalformedFrame:
            message = None
        subject = _subject(topic, which, strategy, message)
        if subject not in schema.subjects:
            found.append((number, subject))
    return found


def _subject(topic: str, which: str, strategy: str, record: str | None) -> str | None:
    if strategy == TOPIC_NAME:
        return f"{topic}-{which}"
    if record is None:
        return None
    return record if strategy == RECORD_NAME else f"{topic}-{record}"


def _why(which: str, name: SchemaName, schema: KnownSchema, subject: str | None) -> str:
    kind = "id" if isinstance(name, int) else "GUID"
    if schema.schema_id < 0:
        return f"its {which} names a schema that is not registered: {kind} {name}"
    if subject is None:
        return f"the schema of its {which}, {kind} {name}, does not name the record"
    return f"the schema of its {which}, {kind} {name}, is not registered for the subject {subject}"


def _chunk(rests: list[bytes], at: int) -> tuple[int, bytes]:
    """Return how many records one request takes, and its body: each with its length in front."""
    body = bytearray()
    count = 0
    for rest in rests[at:]:
        if count and len(body) + len(rest) > MAX_DECODED_BYTES:
            break
        body += len(rest).to_bytes(_LENGTH_BYTES, "big") + rest
        count += 1
    return count, bytes(body)


def _undecodable(status: int, answer: Any, count: int) -> list[tuple[int, str]]:
    """Return which records of a request the registry could not decode, and why."""
    if status == 200 and isinstance(answer, dict) and isinstance(answer.get("invalid"), list):
        return [(int(each["index"]), str(each["message"])) for each in answer["invalid"]]
    if status in (404, 405) and not (isinstance(answer, dict) and answer.get("error_code") == 40403):
        raise RegistryUnavailable("this registry does not decode records: only Ottla's does")
    message = answer.get("message") if isinstance(answer, dict) else None
    return [(index, message or f"HTTP {status}") for index in range(count)]


def _rejection(refusals: Refusals) -> InvalidRecord:
    """Return the error for a batch, which names the bad records, up to a limit."""
    numbers = sorted(refusals)
    error = InvalidRecord(f"{len(numbers)} records were refused: {refusals[numbers[0]]}")
    error.record_errors = [(number, refusals[number]) for number in numbers[:MAX_NAMED_RECORDS]]
    return error
