"""The options of the format `ottla`: each declared once, with its kind, default and meaning.

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
from ottla.common.config.declaration import ConfigError, Key
from ottla.common.config.types import BOOLEAN, INT, LONG, STRING, Kind, at_least, choice
from ottla.common.near_names import unknown
from ottla.common.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from ottla.spark.connector_options import ALREADY_SO, NO_EFFECT, why_refused
from ottla.spark.errors import WrongOption

T = TypeVar("T")
C = TypeVar("C", bound=ClientOptions)

KAFKA = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"

SOURCE, SINK = "source", "sink"
JSON, AVRO, REGISTRY = "json", "avro", "registry"
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"

_UNITS_MS = {
    1: ("", "ms", "millisecond", "milliseconds"),
    SECOND_MS: ("s", "sec", "second", "seconds"),
    MINUTE_MS: ("m", "min", "minute", "minutes"),
    HOUR_MS: ("h", "hour", "hours"),
    DAY_MS: ("d", "day", "days"),
}
_UNIT_MS = {name: size for size, names in _UNITS_MS.items() for name in names}
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]*)")


def _read_duration_ms(text: str) -> int:
    """Parse Spark's two forms: `15m`, and `1 hour 30 minutes`."""
    lower, position, total = text.strip().lower().removeprefix("interval "), 0, 0
    while position < len(lower) or not position:
        found = _DURATION.match(lower, position)
        if found is None or found[2] not in _UNIT_MS:
            raise ValueError("must be a time such as 30s, 15m or 15 minutes")
        total += int(found[1]) * _UNIT_MS[found[2]]
        position = found.end()
    return total


DURATION_MS = Kind("duration", 0, _read_duration_ms)


@dataclass(frozen=True, eq=False)
class SparkOption(Key[T]):
    """An option of the source, of the sink or of both."""

    uses: tuple[str, ...] = ()
    shown_default: str = ""
    """The default as the docs show it; reading and writing may have different ones."""


def _text(name: str, uses: tuple[str, ...], default: str, doc: str) -> SparkOption[str | None]:
    return SparkOption(name, STRING, None, doc, uses=uses, shown_default=default)


STARTING_TIMESTAMP: SparkOption[int | None] = SparkOption(
    "startingTimestamp",
    LONG,
    None,
    "Begin at one time (ms); goes before the other two.",
    uses=(SOURCE,),
    check=at_least(0),
    shown_default="",
)
TIMESTAMP_STRATEGY: SparkOption[str] = SparkOption(
    "startingOffsetsByTimestampStrategy",
    choice("error", "latest"),
    "error",
    "What if no record is that young: `error`, or begin at the end (`latest`).",
    uses=(SOURCE,),
    shown_default="error",
)
ENDING_TIMESTAMP: SparkOption[int | None] = SparkOption(
    "endingTimestamp",
    LONG,
    None,
    "Where a batch ends, by one time.",
    uses=(SOURCE,),
    check=at_least(0),
    shown_default="",
)
FAIL_ON_DATA_LOSS: SparkOption[bool] = SparkOption(
    "failOnDataLoss",
    BOOLEAN,
    True,
    "Whether the query fails when records that it has still to read are gone: by retention, or with "
    "their topic. With false it continues with the first record that exists.",
    uses=(SOURCE,),
    shown_default="true",
)
MAX_OFFSETS_PER_TRIGGER: SparkOption[int | None] = SparkOption(
    "maxOffsetsPerTrigger",
    LONG,
    None,
    "The most records of one batch, shared by lag.",
    uses=(SOURCE,),
    check=at_least(1),
    shown_default="",
)
MIN_OFFSETS_PER_TRIGGER: SparkOption[int | None] = SparkOption(
    "minOffsetsPerTrigger",
    LONG,
    None,
    "Wait for so many records before a batch begins.",
    uses=(SOURCE,),
    check=at_least(1),
    shown_default="",
)
MAX_TRIGGER_DELAY: SparkOption[int] = SparkOption(
    "maxTriggerDelay",
    DURATION_MS,
    15 * MINUTE_MS,
    "But no longer than this.",
    uses=(SOURCE,),
    shown_default="15m",
)
MIN_PARTITIONS: SparkOption[int | None] = SparkOption(
    "minPartitions",
    INT,
    None,
    "The fewest tasks that read a batch: partitions are split.",
    uses=(SOURCE,),
    check=at_least(1),
    shown_default="",
)
MAX_RECORDS_PER_PARTITION: SparkOption[int | None] = SparkOption(
    "maxRecordsPerPartition",
    LONG,
    None,
    "The most records that one task reads.",
    uses=(SOURCE,),
    check=at_least(1),
    shown_default="",
)
INCLUDE_HEADERS: SparkOption[bool | None] = SparkOption(
    "includeHeaders",
    BOOLEAN,
    None,
    "Whether there is a column `headers`; when writing, whether it is used.",
    uses=(SOURCE, SINK),
    shown_default="false; true when writing",
)
GROUP_ID_PREFIX: SparkOption[str] = SparkOption(
    "groupIdPrefix",
    STRING,
    "spark-ottla",
    "How the names of groups begin that we choose.",
    uses=(SOURCE,),
    shown_default="spark-ottla",
)
COMMIT_PROGRESS: SparkOption[bool] = SparkOption(
    "commitProgress",
    BOOLEAN,
    True,
    "Whether progress is committed to the consumer group, for every tool that shows lag.",
    uses=(SOURCE,),
    shown_default="true",
)
DESERIALIZE: SparkOption[str | None] = SparkOption(
    "deserialize",
    choice(JSON, AVRO, REGISTRY),
    None,
    "Make columns of the values: `json`, `avro`, or `registry` (Avro, JSON Schema or Protobuf, by the "
    "schema that each value names).",
    uses=(SOURCE,),
    shown_default="",
)
SERIALIZE: SparkOption[str | None] = SparkOption(
    "serialize",
    choice(REGISTRY),
    None,
    "`registry`: the column `value` is a struct, and is written with `valueSchema` or the latest schema "
    "of the topic.",
    uses=(SINK,),
)
SCHEMA_TYPE: SparkOption[str] = SparkOption(
    "schemaType",
    choice(AVRO, JSON, "protobuf"),
    AVRO,
    "The type of `valueSchema`: `avro`, `json` or `protobuf`.",
    uses=(SINK,),
    shown_default="avro",
)
BAD_RECORDS: SparkOption[str] = SparkOption(
    "badRecords",
    choice("fail", "keep"),
    "fail",
    "What becomes of values that do not fit: `fail`, or `keep` (empty columns; the bytes in `value`, the "
    "reason in `error`).",
    uses=(SOURCE,),
    shown_default="fail",
)
POLL_TIMEOUT_MS: SparkOption[int] = SparkOption(
    "kafkaConsumer.pollTimeoutMs",
    LONG,
    120_000,
    "How long a task waits for a record.",
    uses=(SOURCE,),
    check=at_least(1),
    shown_default="120000",
)
DELIVERY_GUARANTEE: SparkOption[str] = SparkOption(
    "deliveryGuarantee",
    choice(EXACTLY_ONCE, AT_LEAST_ONCE),
    EXACTLY_ONCE,
    "`exactly-once` (in transactions, seen when the batch is committed) or `at-least-once` (without).",
    uses=(SINK,),
    shown_default="exactly-once",
)
INCLUDE_TIMESTAMP: SparkOption[bool] = SparkOption(
    "includeTimestamp",
    BOOLEAN,
    False,
    "Whether the column `timestamp` is the records' time.",
    uses=(SINK,),
    shown_default="false",
)

FETCH_OFFSET_RETRIES: SparkOption[int] = SparkOption(
    "fetchOffset.numRetries",
    INT,
    3,
    "How often to ask for offsets again, at least.",
    uses=(SOURCE,),
    check=at_least(0),
    shown_default="3",
)
FETCH_OFFSET_INTERVAL_MS: SparkOption[int] = SparkOption(
    "fetchOffset.retryIntervalMs",
    LONG,
    1_000,
    "The pause in between; with fetchOffset.numRetries, the shortest time for which it is asked.",
    uses=(SOURCE,),
    check=at_least(0),
    shown_default="1000",
)

OPTIONS: tuple[SparkOption[Any], ...] = (
    _text("subscribe", (SOURCE,), "", "Topics to read, with commas."),
    _text("subscribePattern", (SOURCE,), "", "Read every topic whose whole name this expression matches."),
    _text("assign", (SOURCE,), "", 'Partitions to read: `{"orders": [0, 1]}`.'),
    _text(
        "startingOffsets",
        (SOURCE,),
        "latest; earliest in a batch",
        'Where to begin: `earliest`, `latest`, or `{"orders": {"0": 23, "1": -2}}` (-2 earliest, -1 latest). '
        "A query that has a checkpoint resumes from it.",
    ),
    _text(
        "startingOffsetsByTimestamp",
        (SOURCE,),
        "",
        'Begin at times (ms): `{"orders": {"0": 1700000000000}}`; goes before startingOffsets.',
    ),
    STARTING_TIMESTAMP,
    TIMESTAMP_STRATEGY,
    _text("endingOffsets", (SOURCE,), "latest", "Where a batch ends; no `earliest`, no -2."),
    _text(
        "endingOffsetsByTimestamp",
        (SOURCE,),
        "",
        "Where a batch ends, by times; without a record, at the end.",
    ),
    ENDING_TIMESTAMP,
    FAIL_ON_DATA_LOSS,
    MAX_OFFSETS_PER_TRIGGER,
    MIN_OFFSETS_PER_TRIGGER,
    MAX_TRIGGER_DELAY,
    MIN_PARTITIONS,
    MAX_RECORDS_PER_PARTITION,
    INCLUDE_HEADERS,
    GROUP_ID_PREFIX,
    COMMIT_PROGRESS,
    _text("columns", (SOURCE,), "all", "Only these columns, in this order: `value,timestamp`."),
    _text(
        "where",
        (SOURCE,),
        "",
        "Only these records: conditions on topic, partition, offset and timestamp, joined by AND "
        "(`partition IN (0, 1) AND timestamp >= '2026-01-01T10:00Z'`).",
    ),
    DESERIALIZE,
    _text(
        "valueSchema",
        (SOURCE, SINK),
        "",
        "For `json`: columns as in SQL (`id INT, name STRING`); for `avro`: the schema, as JSON; for "
        "`registry` either, or nothing: the latest of the topic.",
    ),
    SERIALIZE,
    SCHEMA_TYPE,
    _text("schemaRegistryUrl", (SOURCE, SINK), "", "Where the registry is: `http://localhost:8081`."),
    BAD_RECORDS,
    _text(
        "timeZone",
        (SOURCE,),
        "the session's",
        "For `json`: the zone of times that name none, such as `Europe/Berlin`.",
    ),
    POLL_TIMEOUT_MS,
    FETCH_OFFSET_RETRIES,
    FETCH_OFFSET_INTERVAL_MS,
    _text("topic", (SINK,), "", "Where records go that have no column `topic`, or all of them."),
    DELIVERY_GUARANTEE,
    _text(
        "sinkName",
        (SINK,),
        "main; the topic in foreachBatch",
        "Name of this sink, if a query has several; must stay the same over restarts.",
    ),
    INCLUDE_TIMESTAMP,
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
        "enable.idempotence": "is always true; deliveryGuarantee says how sure you want to be",
        "acks": "is always all",
    },
}

_SAME_FOR_THE_CLIENT = {"group.id"}
"""Client options that the source itself takes."""


class GivenOptions:
    """The options of one read or write, as they were given."""

    def __init__(self, options: Mapping[str, str], use: str) -> None:
        self._use = use
        self._known = {each.name.lower(): each for each in OPTIONS if use in each.uses}
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
            self._take_client_option(short, value)
        elif name not in FROM_SPARK:
            raise WrongOption(name, self._why_unknown(name))

    def _take_client_option(self, name: str, value: str) -> None:
        if name in NO_EFFECT or value.replace(" ", "").lower() in ALREADY_SO.get(name, ()):
            return
        refused = REFUSED_CLIENT_OPTIONS[self._use].get(name) or why_refused(name)
        if refused is not None:
            raise WrongOption(KAFKA + name, f"cannot be set here: {refused}")
        self.client_values[name] = value

    def _why_unknown(self, name: str) -> str:
        what = f"option of the {self._use}"
        other = next((each.uses[0] for each in OPTIONS if each.name.lower() == name), None)
        if other is not None:
            return f"unknown {what} (it is one of the {other})"
        # Compared in lower case, as Spark gives it; shown as it is declared.
        reason = unknown(what, name, [*self._known, BOOTSTRAP])
        for lower, option in self._known.items():
            reason = reason.replace(f" {lower}?", f" {option.name}?")
        return reason

    def text(self, name: str) -> str | None:
        """Return an option as it was given; None if it was not, or is empty."""
        return self._values.get(name.lower(), "").strip() or None

    def value(self, option: SparkOption[T]) -> T:
        """Return the value of an option, its default if it was not given."""
        text = self.text(option.name)
        if text is None:
            return option.default
        try:
            return option.parse(text)
        except ConfigError as error:
            raise WrongOption(option.name, error.reason) from None

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
