"""Converters and transforms of a task, and what happens to records that they cannot take."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ottla.connect.converters.base import Converter
from ottla.connect.data.json_codec import unshared
from ottla.connect.data.record import Header, RawRecord, Record
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.errors import BAD_DATA
from ottla.connect.plugins import CONVERTERS, HEADERS, converter_of
from ottla.connect.transforms.chain import Step, chain_of

log = logging.getLogger(__name__)

PREFIX = "__connect.errors."
KEY_STAGE, VALUE_STAGE, HEADER_STAGE = "KEY_CONVERTER", "VALUE_CONVERTER", "HEADER_CONVERTER"
TRANSFORM_STAGE, PUT_STAGE = "TRANSFORMATION", "TASK_PUT"


class BadRecord(Exception):
    """A record that a stage cannot take."""

    def __init__(self, stage: str, by: str, cause: BaseException) -> None:
        super().__init__(f"{stage}: {cause}")
        self.stage = stage
        self.by = by
        self.cause = cause


@dataclass
class Counts:
    """What a task has counted."""

    records: int = 0
    errors: int = 0
    skipped: int = 0
    dead_letters: int = 0
    last_error: str | None = None


@dataclass
class Pipeline:
    """Converters and transforms of one task."""

    spec: TaskSpec
    key: Converter
    value: Converter
    header: Converter
    steps: list[Step]
    counts: Counts = field(default_factory=Counts)

    @classmethod
    def of(cls, spec: TaskSpec) -> Pipeline:
        """Build it from the configs; raise WrongConfig."""
        config, defaults = spec.config, spec.defaults
        return cls(
            spec,
            converter_of("key", config, defaults, known=CONVERTERS),
            converter_of("value", config, defaults, known=CONVERTERS),
            converter_of("header", config, defaults, known=HEADERS),
            chain_of(config),
        )

    @property
    def tolerates(self) -> bool:
        """Whether a bad record does not fail the task."""
        return self.spec.config.get("errors.tolerance", "none").lower() == "all"

    def transform(self, record: Record) -> Record | None:
        """Apply the transforms; raise BadRecord."""
        current: Record | None = record
        if self.steps:
            record.value = unshared(record.value)
        for step in self.steps:
            try:
                current = step.apply(record)
            except BAD_DATA as error:
                raise BadRecord(TRANSFORM_STAGE, step.transform.name, error) from error
            if current is None:
                return None
            record = current
        return current

    def outgoing(self, record: Record) -> RawRecord | None:
        """Return a record of a source in bytes; None if it is dropped. Raises BadRecord."""
        current = self.transform(record)
        if current is None:
            return None
        key = _try(KEY_STAGE, self.key, self.key.to_bytes, current.topic, current.key_schema, current.key)
        value = _try(
            VALUE_STAGE, self.value, self.value.to_bytes, current.topic, current.value_schema, current.value
        )
        headers = tuple(
            (
                each.name,
                _try(HEADER_STAGE, self.header, self.header.to_bytes, current.topic, each.schema, each.value),
            )
            for each in current.headers
        )
        return RawRecord(current.topic, current.partition, -1, current.timestamp_ms, key, value, headers)

    def incoming(self, raw: RawRecord) -> Record | None:
        """Return a record of a topic for a sink; None if it is dropped. Raises BadRecord."""
        key_schema, key = _try(KEY_STAGE, self.key, self.key.to_value, raw.topic, raw.key)
        value_schema, value = _try(VALUE_STAGE, self.value, self.value.to_value, raw.topic, raw.value)
        headers = [
            Header(name, *_try(HEADER_STAGE, self.header, self.header.to_value, raw.topic, data))
            for name, data in raw.headers
        ]
        return self.transform(
            Record(
                raw.topic,
                value,
                value_schema,
                key,
                key_schema,
                raw.partition,
                raw.timestamp_ms,
                headers,
                raw.offset,
                raw.topic,
            )
        )

    def all_outgoing(self, records: Iterator[Record]) -> Iterator[RawRecord]:
        """Return the records of a source in bytes; bad ones are skipped if they are tolerated."""
        for record in records:
            try:
                raw = self.outgoing(record)
            except BadRecord as bad:
                self.note(bad)
                continue
            if raw is not None:
                self.counts.records += 1
                yield raw

    def note(self, bad: BadRecord, raw: RawRecord | None = None) -> None:
        """Count a bad record; raise it if it is not tolerated."""
        self.counts.errors += 1
        self.counts.last_error = str(bad)
        if not self.tolerates:
            raise bad
        self.counts.skipped += 1
        if self.spec.config.get("errors.log.enable", "false").lower() == "true":
            place = ""
            if (
                self.spec.config.get("errors.log.include.messages", "false").lower() == "true"
                and raw is not None
            ):
                place = f" at {raw.topic}-{raw.partition} offset {raw.offset}"
            log.error("%s: a record%s is skipped: %s", self.spec.id, place, bad)

    def dead_letter(self, raw: RawRecord, bad: BadRecord) -> RawRecord | None:
        """Return the record for the dead-letter topic, if there is one."""
        topic = self.spec.config.get("errors.deadletterqueue.topic.name", "").strip()
        if not topic:
            return None
        headers = raw.headers
        if self.spec.config.get("errors.deadletterqueue.context.headers.enable", "false").lower() == "true":
            headers = (*headers, *error_headers(self.spec, raw, bad))
        self.counts.dead_letters += 1
        return RawRecord(topic, None, -1, raw.timestamp_ms, raw.key, raw.value, headers)


def error_headers(spec: TaskSpec, raw: RawRecord, bad: BadRecord) -> list[tuple[str, bytes]]:
    """Return the headers that say why a record is in the dead-letter topic."""
    cause = bad.cause
    found: Mapping[str, object] = {
        "topic": raw.topic,
        "partition": raw.partition,
        "offset": raw.offset,
        "connector.name": spec.connector,
        "task.id": spec.task,
        "stage": bad.stage,
        "class.name": bad.by,
        "exception.class.name": f"{type(cause).__module__}.{type(cause).__qualname__}",
        "exception.message": str(cause),
        "exception.stacktrace": "".join(traceback.format_exception(cause)),
    }
    return [(PREFIX + name, str(value).encode()) for name, value in found.items()]


def _try(stage: str, by: Converter, call, *arguments):  # type: ignore[no-untyped-def]
    try:
        return call(*arguments)
    except BAD_DATA as error:
        raise BadRecord(stage, by.name, error) from error
