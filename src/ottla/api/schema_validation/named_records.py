"""Find which schemas the records of a batch name."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.log.log_config import LogConfig
from ottla.log.validator import ThrottleCallback
from ottla.protocol.records.batch import Buffer
from ottla.protocol.records.records import Headers, iter_records
from ottla.protocol.schema_frame import HEADERS, KEY, VALUE, read_name

RECORDS_PER_SLICE = 500
SchemaName = int | str
"""An id, or a GUID."""


@dataclass(slots=True)
class Named:
    """The records that name one schema: their numbers in the batch, and what follows the name."""

    numbers: list[int] = field(default_factory=list)
    rests: list[bytes] = field(default_factory=list)
    """What follows the name: message indexes and data, or the data alone."""


NamedRecords = dict[tuple[str, SchemaName], Named]
"""By `key` or `value`, and the name of the schema."""
Refusals = dict[int, str]
"""Why a record is refused, by its number in the batch."""


def find_names(
    batch: Buffer, config: LogConfig, throttle: ThrottleCallback | None = None
) -> tuple[NamedRecords, Refusals]:
    """Return the schemas that the records name, and the records that name none.

    A missing key or value needs no schema: it is how records are deleted from a compacted topic.
    """
    named: NamedRecords = {}
    refusals: Refusals = {}
    checks_keys, checks_values = (
        config.confluent_key_schema_validation,
        config.confluent_value_schema_validation,
    )
    for number, record in enumerate(iter_records(batch)):
        if throttle is not None and (number + 1) % RECORDS_PER_SLICE == 0:
            throttle()
        if checks_keys and record.key is not None:
            _add(named, refusals, number, KEY, record.key, record.headers)
        if checks_values and record.value is not None:
            _add(named, refusals, number, VALUE, record.value, record.headers)
    return named, refusals


def _add(
    named: NamedRecords, refusals: Refusals, number: int, which: str, data: bytes, headers: Headers
) -> None:
    rest = data
    found = None
    if headers:
        wanted = HEADERS[which]
        value = next((each for name, each in headers if name == wanted and each is not None), None)
        if value is not None:
            found = read_name(value)
            rest = (b"" if found is None else value[found[1] :]) + data
    if found is None:
        found = read_name(data)
        if found is None:
            refusals.setdefault(number, f"its {which} does not name a schema")
            return
        rest = data[found[1] :]
    group = named.get((which, found[0]))
    if group is None:
        group = named[which, found[0]] = Named()
    group.numbers.append(number)
    group.rests.append(rest)
