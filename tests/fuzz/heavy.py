"""The requests that cost the most: as many elements as the decoder lets through, in each array there is.

For every array of a message there are three: of names that exist (the same one again and again, which is
how a small request asks for a large answer), of names that do not (all different), and of nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from tests.fuzz.messages import request_head
from tests.fuzz.world import World
from tests.unit.protocol.entities import kio_bytes

from ottla.api.dispatcher import MAX_FRAME_BYTES
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.hot_path import TOPIC_WEIGHT
from ottla.protocol.schema.fields import FieldSpec, specs_of, zero_of
from ottla.protocol.schema.messages import MAX_REQUEST_ELEMENTS, request_class, request_encoder

Fill = Callable[[FieldSpec, int], Any]
"""Return a value for a field, given the number of its element."""

Path = tuple[str, ...]

NAMES = ("name", "topic", "topic_name", "topic_names", "resource_name")
PARTITIONS = ("partition", "partitions", "partition_index", "partition_indexes", "index")
GROUPS = ("group_id", "groups", "group_ids", "groups_names", "coordinator_keys", "key")
ROOM = 100
"""Elements and bytes that are left for the rest of the message."""


class Heavy(NamedTuple):
    """One request, and what is in it."""

    title: str
    frame: bytes


def heavy_requests(world: World, topic: str, api_key: int, version: int) -> Iterator[Heavy]:
    """Yield the heaviest requests of this version; `topic` is one with many partitions."""
    cls = request_class(api_key, version)
    weigh = _hand_written_weight if api_key in (ApiKey.PRODUCE, ApiKey.FETCH) else _compiled_weight
    for path in _array_paths(cls):
        for title, fill in (("known", _known(world, topic)), ("unknown", _unknown), ("empty", _empty)):
            entity = _filled(cls, path, fill, weigh)
            body = request_encoder(api_key, version, version)(entity)
            yield Heavy(f"{'.'.join(path)} {title}", request_head(api_key, version, 7) + body)


def _array_paths(cls: type[Any]) -> Iterator[Path]:
    for spec in specs_of(cls):
        if spec.is_array:
            yield (spec.name,)
        if spec.struct is not None:
            yield from ((spec.name, *rest) for rest in _array_paths(spec.struct))


def _filled(cls: type[Any], path: Path, fill: Fill, weigh: Callable[[FieldSpec], int]) -> Any:
    """Return a message that is empty but for the array at `path`, which has all that is allowed."""
    blank = _struct(cls, fill, 0)
    spec = next(each for each in specs_of(cls) if each.name == path[0])
    if len(path) > 1:
        assert spec.struct is not None
        inner = _filled(spec.struct, path[1:], fill, weigh)
        return replace(blank, **{spec.name: (inner,) if spec.is_array else inner})

    def size(count: int) -> int:
        return len(kio_bytes(replace(blank, **{spec.name: (_element(spec, fill, 100_000),) * count})))

    by_bytes = (MAX_FRAME_BYTES - size(0) - ROOM) // (size(1) - size(0))
    count = min((MAX_REQUEST_ELEMENTS - ROOM) // weigh(spec), by_bytes)
    return replace(blank, **{spec.name: tuple(_element(spec, fill, number) for number in range(count))})


def _compiled_weight(spec: FieldSpec) -> int:
    """Return how much of its budget the decoder spends on one element."""
    if spec.struct is None:
        return 2 if spec.kind == "string" else 1
    return max(2, 1 + len(specs_of(spec.struct)) // 3)


def _hand_written_weight(spec: FieldSpec) -> int:
    is_topic = spec.struct is not None and any(each.is_array for each in specs_of(spec.struct))
    return TOPIC_WEIGHT if is_topic else 1


def _struct(cls: type[Any], fill: Fill, number: int) -> Any:
    values: dict[str, Any] = {}
    for spec in specs_of(cls):
        if spec.is_array:
            values[spec.name] = ()
        elif spec.struct is not None:
            values[spec.name] = None if spec.nullable else _struct(spec.struct, fill, number)
        else:
            values[spec.name] = fill(spec, number)
    return cls(**values)


def _element(spec: FieldSpec, fill: Fill, number: int) -> Any:
    return fill(spec, number) if spec.struct is None else _struct(spec.struct, fill, number)


def _empty(spec: FieldSpec, _number: int) -> Any:
    return zero_of(replace(spec, is_array=False))


def _unknown(spec: FieldSpec, number: int) -> Any:
    if spec.kind == "string":
        return f"unknown-{number}"
    if spec.kind == "uuid":
        return UUID(int=number + 1)
    return number if spec.name in PARTITIONS else _empty(spec, number)


def _known(world: World, topic: str) -> Fill:
    values = {
        **dict.fromkeys(NAMES, topic),
        **dict.fromkeys(GROUPS, world.GROUPS[0]),
        "topic_id": world.topics[topic],
        "resource_type": 2,
        "timestamp": 1,
        "acks": 1,
        "include_synonyms": True,
        "include_documentation": True,
        "timeout": timedelta(seconds=1),
        "session_timeout": timedelta(seconds=1),
        "rebalance_timeout": timedelta(seconds=1),
    }

    def fill(spec: FieldSpec, number: int) -> Any:
        if spec.name in PARTITIONS:
            return number % 100
        return values.get(spec.name, _empty(spec, number))

    return fill
