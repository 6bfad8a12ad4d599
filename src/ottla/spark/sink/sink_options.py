"""The options of the sink, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.producer.options import ProducerOptions
from ottla.spark.errors import WrongOption
from ottla.spark.options import SINK, Given
from ottla.spark.sink.decisions import MAIN

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
TRANSACTION_TIMEOUT_MS = 15 * 60_000


@dataclass(frozen=True)
class SinkOptions:
    """The options of a write."""

    topic: str | None
    producer: ProducerOptions
    is_exactly_once: bool
    sink: str | None
    """The name that the user gave; None if he gave none."""
    with_headers: bool
    with_timestamp: bool


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options of a write; raise WrongOption for the first that does not fit."""
    given = Given(options, SINK)
    fixed = {}
    if "transaction.timeout.ms" not in given.client_values:
        fixed["transaction_timeout_ms"] = TRANSACTION_TIMEOUT_MS
    sink = given.text("sinkName")
    if sink is not None and ("/" in sink or sink == MAIN or sink.isdigit()):
        raise WrongOption("sinkName", f"must be a name other than {MAIN}, not a number, and without /")
    return SinkOptions(
        topic=given.text("topic"),
        producer=given.client(ProducerOptions, **fixed),
        is_exactly_once=given.choice("deliveryGuarantee", EXACTLY_ONCE, AT_LEAST_ONCE) == EXACTLY_ONCE,
        sink=sink,
        with_headers=given.yes_or_no("includeHeaders", True),
        with_timestamp=given.yes_or_no("includeTimestamp", False),
    )
