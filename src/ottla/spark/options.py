"""The options of the format `ottla`: each declared once, with its default and what it means.

They have the names, the meanings and the defaults of Spark's Kafka connector, and as there upper and lower
case are the same. `kafka.NAME` goes to the client (docs/client-options.md). What is not known is refused,
with the nearest name that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.client.client_options import ClientOptions
from ottla.client.options import ConfigError
from ottla.common.config.declaration import did_you_mean
from ottla.spark.errors import WrongOption

C = TypeVar("C", bound=ClientOptions)

KAFKA = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"

SOURCE, SINK = "source", "sink"

_DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?", re.IGNORECASE)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, None: 1}


@dataclass(frozen=True, slots=True)
class Declared:
    """An option: of the source, of the sink or of both; what it is without being given."""

    name: str
    of: tuple[str, ...]
    default: str
    doc: str


OPTIONS = (
    Declared("subscribe", (SOURCE,), "", "Topics to read, with commas."),
    Declared("subscribePattern", (SOURCE,), "", "Read every topic whose whole name this expression matches."),
    Declared("assign", (SOURCE,), "", 'Partitions to read: `{"orders": [0, 1]}`.'),
    Declared(
        "startingOffsets",
        (SOURCE,),
        "latest; earliest in a batch",
        'Where to begin: `earliest`, `latest`, or `{"orders": {"0": 23, "1": -2}}` (-2 earliest, -1 latest). '
        "A query that has a checkpoint goes on where it was.",
    ),
    Declared(
        "startingOffsetsByTimestamp",
        (SOURCE,),
        "",
        'Begin at times (ms): `{"orders": {"0": 1700000000000}}`; goes before startingOffsets.',
    ),
    Declared("startingTimestamp", (SOURCE,), "", "Begin at one time (ms); goes before the other two."),
    Declared(
        "startingOffsetsByTimestampStrategy",
        (SOURCE,),
        "error",
        "What if no record is that young: `error`, or begin at the end (`latest`).",
    ),
    Declared("endingOffsets", (SOURCE,), "latest", "Where a batch ends; no `earliest`, no -2."),
    Declared(
        "endingOffsetsByTimestamp",
        (SOURCE,),
        "",
        "Where a batch ends, by times; without a record, at the end.",
    ),
    Declared("endingTimestamp", (SOURCE,), "", "Where a batch ends, by one time."),
    Declared(
        "failOnDataLoss",
        (SOURCE,),
        "true",
        "Whether the query fails when records that it has still to read are gone: by retention, or with "
        "their topic. With false it goes on with what is there.",
    ),
    Declared("maxOffsetsPerTrigger", (SOURCE,), "", "The most records of one batch, shared by lag."),
    Declared("minOffsetsPerTrigger", (SOURCE,), "", "Wait for so many records before a batch begins."),
    Declared("maxTriggerDelay", (SOURCE,), "15m", "But no longer than this."),
    Declared("minPartitions", (SOURCE,), "", "The fewest tasks that read a batch: partitions are split."),
    Declared("maxRecordsPerPartition", (SOURCE,), "", "The most records that one task reads."),
    Declared(
        "includeHeaders",
        (SOURCE, SINK),
        "false; true when writing",
        "Whether there is a column `headers`; when writing, whether it is used.",
    ),
    Declared("groupIdPrefix", (SOURCE,), "spark-ottla", "How the names of groups begin that we choose."),
    Declared(
        "commitProgress",
        (SOURCE,),
        "true",
        "Whether progress is committed to the consumer group, for every tool that shows lag.",
    ),
    Declared("columns", (SOURCE,), "all", "Only these columns, in this order: `value,timestamp`."),
    Declared(
        "deserialize",
        (SOURCE,),
        "",
        "Make columns of the values: `json`, `avro`, or `registry` (Avro, JSON Schema or Protobuf, by the "
        "schema that each value names).",
    ),
    Declared(
        "valueSchema",
        (SOURCE, SINK),
        "",
        "For `json`: columns as in SQL (`id INT, name STRING`); for `avro`: the schema, as JSON; for "
        "`registry` either, or nothing: the latest of the topic.",
    ),
    Declared(
        "serialize",
        (SINK,),
        "",
        "`registry`: the column `value` is a struct, and is written with `valueSchema` or the latest schema "
        "of the topic.",
    ),
    Declared("schemaType", (SINK,), "avro", "The type of `valueSchema`: `avro`, `json` or `protobuf`."),
    Declared("schemaRegistryUrl", (SOURCE, SINK), "", "Where the registry is: `http://localhost:8081`."),
    Declared(
        "badRecords",
        (SOURCE,),
        "fail",
        "What becomes of values that do not fit: `fail`, or `keep` (empty columns; the bytes in `value`, the "
        "reason in `error`).",
    ),
    Declared(
        "kafkaConsumer.pollTimeoutMs",
        (SOURCE,),
        "120000",
        "How long a task waits for a record.",
    ),
    Declared("topic", (SINK,), "", "Where records go that have no column `topic`, or all of them."),
    Declared(
        "deliveryGuarantee",
        (SINK,),
        "exactly-once",
        "`exactly-once` (in transactions, seen when the batch is committed) or `at-least-once` (without).",
    ),
    Declared(
        "sinkName",
        (SINK,),
        "main; the topic in foreachBatch",
        "Tells the sinks of one query apart; must stay the same over restarts.",
    ),
    Declared(
        "includeTimestamp",
        (SINK,),
        "false",
        "Whether the column `timestamp` is the records' time.",
    ),
)

FROM_SPARK = frozenset({"path", "checkpointlocation", "queryname", "mergeschema", "outputmode", "header"})
"""Options that Spark adds by itself, or that are meant for it."""

REFUSED_CLIENT_OPTIONS = {
    SOURCE: {
        "auto.offset.reset": "write startingOffsets instead",
        "key.deserializer": "keys come as bytes: use functions on columns, or deserialize",
        "value.deserializer": "values come as bytes: use functions on columns, or deserialize",
        "enable.auto.commit": "progress is kept in Spark's checkpoint",
        "interceptor.classes": "is not safe to use in a query",
    },
    SINK: {
        "key.serializer": "keys are bytes or text already",
        "value.serializer": "values are bytes or text already",
        "interceptor.classes": "is not safe to use in a query",
        "transactional.id": "the sink chooses it: see docs/spark.md",
        "transaction.two.phase.commit.enable": "write deliveryGuarantee instead",
        "enable.idempotence": "is always on; deliveryGuarantee says how sure you want to be",
        "acks": "is always all",
    },
}

_SAME_FOR_THE_CLIENT = {"group.id"}
"""Client options that the source itself takes."""


class Given:
    """The options of one read or write, as they were given."""

    def __init__(self, options: Mapping[str, str], use: str) -> None:
        self._use = use
        self._known = {each.name.lower(): each for each in OPTIONS if use in each.of}
        self._values: dict[str, str] = {}
        self.client_values: dict[str, str] = {}
        for name, value in options.items():
            self._take(name.lower(), value)
        if BOOTSTRAP.removeprefix(KAFKA) not in self.client_values:
            raise WrongOption(BOOTSTRAP, "must say where the broker is: HOST:PORT, several with commas")

    def _take(self, name: str, value: str) -> None:
        if name in self._known:
            self._values[name] = value
        elif name.startswith(KAFKA):
            short = name.removeprefix(KAFKA)
            refused = REFUSED_CLIENT_OPTIONS[self._use].get(short)
            if refused is not None:
                raise WrongOption(name, f"cannot be set here: {refused}")
            self.client_values[short] = value
        elif name not in FROM_SPARK:
            known = [each.name for each in self._known.values()]
            nearest = did_you_mean(name, [*(each.lower() for each in known), BOOTSTRAP])
            spelled = {each.lower(): each for each in known}
            for lower, proper in spelled.items():
                nearest = nearest.replace(f" {lower}?", f" {proper}?")
            other = next((each.of[0] for each in OPTIONS if each.name.lower() == name), None)
            hint = f" (it is one of the {other})" if other else nearest
            raise WrongOption(name, f"unknown option of the {self._use}{hint}")

    def text(self, name: str) -> str | None:
        """Return an option as it was given; None if it was not, or is empty."""
        return self._values.get(name.lower(), "").strip() or None

    def number(self, name: str, least: int = 1) -> int | None:
        """Return a whole number."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise WrongOption(name, f"must be a whole number, not {text!r}") from None
        if value < least:
            raise WrongOption(name, f"must be {least} or more, not {value}")
        return value

    def yes_or_no(self, name: str, default: bool) -> bool:
        """Return a truth value."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise WrongOption(name, f"must be true or false, not {text!r}")
        return text.lower() == "true"

    def choice(self, name: str, *choices: str) -> str:
        """Return one of some words; the first one if none was given."""
        text = self.text(name)
        if text is None:
            return choices[0]
        if text.lower() not in choices:
            raise WrongOption(name, f"must be {' or '.join(choices)}, not {text!r}")
        return text.lower()

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return a time span such as `30s` or `15m`, in milliseconds."""
        text = self.text(name)
        if text is None:
            return default_ms
        found = _DURATION.fullmatch(text)
        if found is None:
            raise WrongOption(name, f"must be a time such as 30s or 15m, not {text!r}")
        unit = found.group(2)
        return int(found.group(1)) * _UNIT_MS[unit.lower() if unit else None]

    def client(self, kind: type[C], **fixed: Any) -> C:
        """Return the options of a client; what is given in `fixed` goes before what the user has given."""
        values = {
            each: value for each, value in self.client_values.items() if each not in _SAME_FOR_THE_CLIENT
        }
        for name in fixed:
            values.pop(name.replace("_", "."), None)
        try:
            return kind.of({**values, **fixed})
        except ConfigError as error:
            raise WrongOption(KAFKA + error.key.replace("_", "."), error.reason) from None
