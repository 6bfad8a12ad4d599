"""Looking on while records are sent: for metrics, tracing, or to change records on their way.

    class Counter(ProducerInterceptor):
        def on_acknowledgement(self, metadata, error):
            self.failed += error is not None

    producer = Producer(interceptors=[Counter()])

An interceptor that raises is logged and otherwise ignored: it must not lose a record.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.client.producer.batch import RecordMetadata

log = logging.getLogger(__name__)

Headers = Sequence[tuple[str, bytes | None]]


class ProducerRecord(NamedTuple):
    """A record as its sender gave it, before it is serialised and a partition is chosen."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()


class ProducerInterceptor:
    """Derive from it, and write the methods that are of interest."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Look at a record in the sender's thread, and return it or another one."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Learn, on the producer's loop, that a record was stored (its metadata) or failed (the error)."""

    def close(self) -> None:
        """Learn that the producer is closed."""


class Interceptors:
    """The interceptors of a producer, in a row."""

    def __init__(self, each: Sequence[ProducerInterceptor]) -> None:
        self._each = tuple(each)
        self.are_any = bool(self._each)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record as the interceptors leave it."""
        for each in self._each:
            try:
                left = each.on_send(record)
                if not isinstance(left, ProducerRecord):
                    raise TypeError(f"on_send must return a ProducerRecord, not {left!r}")
                record = left
            except Exception:
                log.exception("an interceptor failed in on_send; the record goes on without it")
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Tell all."""
        for each in self._each:
            try:
                each.on_acknowledgement(metadata, error)
            except Exception:
                log.exception("an interceptor failed in on_acknowledgement")

    def close(self) -> None:
        """Tell all."""
        for each in self._each:
            try:
                each.close()
            except Exception:
                log.exception("an interceptor failed in close")
