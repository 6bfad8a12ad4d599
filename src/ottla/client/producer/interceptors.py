"""Interceptors: called for each record, for metrics, tracing, or to change it.

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
    """A record before it is serialized and its partition chosen."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()


class ProducerInterceptor:
    """Base class of interceptors: override the methods of interest."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called in the thread that sends a record; return it or another one."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Called on the producer's loop when a record was stored (metadata) or failed (error)."""

    def close(self) -> None:
        """Called when the producer is closed."""


class Interceptors:
    """The interceptors of a producer, in order."""

    def __init__(self, each: Sequence[ProducerInterceptor]) -> None:
        self._each = tuple(each)
        self.are_any = bool(self._each)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record after all interceptors."""
        for each in self._each:
            try:
                left = each.on_send(record)
                if not isinstance(left, ProducerRecord):
                    raise TypeError(f"on_send must return a ProducerRecord, not {left!r}")
                record = left
            except Exception:
                log.exception("on_send of an interceptor failed; the record is sent without it")
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Call all."""
        for each in self._each:
            try:
                each.on_acknowledgement(metadata, error)
            except Exception:
                log.exception("on_acknowledgement of an interceptor failed")

    def close(self) -> None:
        """Call all."""
        for each in self._each:
            try:
                each.close()
            except Exception:
                log.exception("close of an interceptor failed")
