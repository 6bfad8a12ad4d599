"""The columns of the source, as Spark's Kafka source has them."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.spark.errors import WrongOption

COLUMN_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
HEADERS = "headers"


def choose_columns(text: str | None, available: Sequence[str]) -> list[str]:
    """Return the columns that the option `columns` names; all if it does not."""
    if text is None:
        return list(available)
    lower = {each.lower(): each for each in available}
    chosen = []
    for name in (each.strip() for each in text.split(",")):
        if name.lower() not in lower:
            raise WrongOption("columns", f"there is no column {name!r}; there are {', '.join(available)}")
        chosen.append(lower[name.lower()])
    if len(set(chosen)) < len(chosen):
        raise WrongOption("columns", "names a column twice")
    return chosen
