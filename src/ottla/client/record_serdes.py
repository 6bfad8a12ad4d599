"""Serializers and deserializers that see the topic and the headers of a record, not only its bytes.

A serializer is a function of the data. One that has a method `serialize_record` is called by that instead,
and may add headers; `deserialize_record` is its counterpart. Those of the schema registry have them
(`ottla.registry.serdes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

KEY, VALUE = "key", "value"

Header = tuple[str, bytes | None]


def serialize(
    serializer: Callable[[Any], bytes | None] | None,
    topic: str,
    field: str,
    data: Any,
    headers: list[Header],
) -> Any:
    """Call a serializer of either kind; without one, return the data as it is."""
    if serializer is None:
        return data
    with_record = getattr(serializer, "serialize_record", None)
    return serializer(data) if with_record is None else with_record(topic, field, data, headers)


def takes_records(deserializer: Callable[[bytes], Any] | None) -> bool:
    """Return whether a deserializer wants to see the record."""
    return hasattr(deserializer, "deserialize_record")


def deserialize(
    deserializer: Callable[[bytes], Any], topic: str, field: str, data: bytes, headers: Iterable[Header]
) -> Any:
    """Call a deserializer of either kind."""
    with_record = getattr(deserializer, "deserialize_record", None)
    return deserializer(data) if with_record is None else with_record(topic, field, data, headers)
