"""Requests of every served API and version that make sense: they name what exists, in ranges that work.

`random_entity` fills a message with any values; here the fields whose names are known get values from
small dictionaries, so that handlers get past their first check. Mutations then do the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from tests.fuzz.batches import EDGES_32, EDGES_64, NOW_MS, any_batch
from tests.fuzz.coherent import adjusted
from tests.fuzz.world import World
from tests.unit.protocol.entities import kio_bytes, random_entity

from ottla.api.table import APIS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import is_flexible
from ottla.protocol.schema.fields import FieldSpec, specs_of
from ottla.protocol.schema.messages import request_class

PLAUSIBLE = (1.0, 1.0, 0.95, 0.6)
"""How many of the fields of a message that we know get a value that makes sense."""

COHERENT = 0.6
"""How many messages have fields that fit together, where that matters."""

CONFIG_VALUES = (
    *("", "0", "1", "-1", "0.5", "1e9", "NaN", "1048576", "9223372036854775807", "true"),
    *("compact", "delete", "compact,delete", "gzip", "zstd", "producer", "LogAppendTime", "\0", "x" * 300),
)
RATES = (0.0, 1.0, -1.0, 0.5, 1e9, 1e300, float("nan"), float("inf"))
PATTERNS = ("", "fuzz-.*", "(a+)+$", "[", "(?i)FUZZ", "a{1,9999}", "\\p{L}*", "." * 300)
TEXTS = ("", "a", "é漢🦦", "\0", "x" * 300, "range", "consumer", "-")


Choose = Callable[[Random, World], Any]


def _of(*values: Any) -> Choose:
    return lambda random, _world: random.choice(values)


def _mostly(usual: tuple[Any, ...], *rare: Any) -> Choose:
    return lambda random, _world: random.choice(rare if random.random() < 0.08 else usual)


def _ms(*values: int) -> Choose:
    return lambda random, _world: timedelta(milliseconds=random.choice(values))


_TOPIC: Choose = lambda random, world: world.topic(random)  # noqa: E731
_GROUP: Choose = lambda random, world: world.group(random)  # noqa: E731
_MEMBER: Choose = lambda random, world: random.choice(world.members)  # noqa: E731
_PARTITION = _mostly((0, 0, 0, 1, 1), 2, 3, -1, 2**31 - 1)
_EPOCH = _mostly((-1, -1, 0), 1, 2**31 - 1, -(2**31))
_OFFSET = _mostly((0, 0, 1, 2, 5), 100, *EDGES_64)
_SIZE = _mostly((1, 100, 65_536, 1 << 20), *EDGES_32)

BY_NAME: dict[str, Choose] = {
    "topic": _TOPIC,
    "topic_name": _TOPIC,
    "topic_names": _TOPIC,
    "topic_id": lambda random, world: world.topic_id(random),
    "subscribed_topic_names": _TOPIC,
    "subscribed_topic_regex": _of(*PATTERNS),
    "group_id": _GROUP,
    "groups": _GROUP,
    "group_ids": _GROUP,
    "groups_names": _GROUP,
    "coordinator_keys": _GROUP,
    "key": _GROUP,
    "key_type": _mostly((0,), 1, 2, -1),
    "member_id": _MEMBER,
    "group_instance_id": _of(None, None, "static-1", "static-2", ""),
    "instance_id": _of(None, None, "static-1", "static-2", ""),
    "protocol_type": _mostly(("consumer",), "connect", "", None),
    "protocol_name": _mostly(("range",), "other", "", None),
    "generation_id": lambda random, world: random.choice((*world.epochs, -1)),
    "generation_id_or_member_epoch": lambda random, world: random.choice((*world.epochs, -1)),
    "member_epoch": lambda random, world: random.choice((*world.epochs, 0, -1, -2)),
    "server_assignor": _of(None, "uniform", "range", "none"),
    "session_timeout": _ms(200, 500, 1000, 0),
    "rebalance_timeout": _ms(200, 500, -1),
    "partition": _PARTITION,
    "partitions": _PARTITION,
    "partition_index": _PARTITION,
    "partition_indexes": _PARTITION,
    "index": _PARTITION,
    "current_leader_epoch": _EPOCH,
    "leader_epoch": _EPOCH,
    "last_fetched_epoch": _EPOCH,
    "fetch_offset": _OFFSET,
    "log_start_offset": _OFFSET,
    "committed_offset": _OFFSET,
    "offset": _OFFSET,
    "timestamp": _of(-1, -2, -3, -4, -5, -6, 0, NOW_MS, NOW_MS + 500, *EDGES_64),
    "committed_metadata": _of(None, "", "meta", "x" * 5000),
    "max_wait": _ms(0, 0, 1, 5, 100, -1, 2**31 - 1),
    "min_bytes": _of(0, 1, 1, 100, 2**31 - 1, -1),
    "max_bytes": _SIZE,
    "partition_max_bytes": _SIZE,
    "isolation_level": _mostly((0, 0, 1), 2, -1),
    "replica_id": _mostly((-1,), 0, 1, -2),
    "session_id": lambda random, world: random.choice(world.session_ids),
    "session_epoch": _of(-1, -1, 0, 0, 1, 2, 3),
    "acks": _mostly((-1, 1), 0, 2, -2),
    "transactional_id": _mostly((None,), "", "tx"),
    "timeout": _ms(0, 100, 1000, -1, 2**31 - 1),
    "producer_id": _of(-1, -1, 0, 1, *EDGES_64),
    "producer_epoch": _of(-1, -1, 0, 1, -2),
    "num_partitions": _mostly((-1, 1, 2, 3), 0, 17, 2**31 - 1),
    "count": _mostly((3, 4, 5), 0, 1, 2, -1, 17, 2**31 - 1),
    "replication_factor": _mostly((-1, 1), 2, 0, -2),
    "broker_ids": _mostly((1,), 2, -1),
    "broker_id": _mostly((1,), 2, -1),
    "broker_epoch": _mostly((-1, 0, 1, 2), *EDGES_64),
    "replicas": _mostly((1,), 2, -1),
    "partition_epoch": _EPOCH,
    "election_type": _mostly((0, 1), 2, -1),
    "validate_only": _of(True, True, False),
    "allow_auto_topic_creation": _of(True, False, False, False),
    "resource_type": _mostly((2, 2, 4), 8, 0, 16, 127, -1),
    "resource_name": lambda random, world: random.choice((world.topic(random), "1", "", "2", "group-a")),
    "configuration_keys": lambda random, world: random.choice(world.CONFIG_KEYS),
    "config_operation": _of(0, 0, 1, 2, 3, -1, 4),
    "value": _of(None, *CONFIG_VALUES),
    "states_filter": _of("Stable", "empty", "", "nonsense"),
    "types_filter": _of("classic", "consumer", ""),
    "endpoint_type": _mostly((1,), 2, 0, -1),
    "response_partition_limit": _of(2000, 1, 0, -1, 2**31 - 1),
    "client_software_name": _of("fuzz", "", "-", "a b", "x" * 300),
    "client_software_version": _of("1.0", "", "."),
    "name": _TOPIC,
}
"""What to put into a field, by its name."""

BY_PARENT: dict[tuple[str, str], Choose] = {
    ("configs", "name"): lambda random, world: random.choice(world.CONFIG_KEYS),
    ("protocols", "name"): _of("range", "range", "roundrobin", "", "x"),
}
"""The same, for fields whose name does not tell what they are."""


def plausible(random: Random, world: World, entity: Any, share: float, parent: str = "") -> Any:
    """Return the message with a share of its fields set to something that makes sense."""
    changes: dict[str, Any] = {}
    for spec in specs_of(type(entity)):
        value = getattr(entity, spec.name)
        if spec.struct is not None:
            changes[spec.name] = _plausible_structs(random, world, spec, value, share)
        elif spec.kind == "records":
            changes[spec.name] = any_batch(random) if random.random() < 0.98 else value
        elif random.random() < share:
            changes[spec.name] = _plausible_value(random, world, spec, value, parent)
    return replace(entity, **changes)


def _plausible_structs(random: Random, world: World, spec: FieldSpec, value: Any, share: float) -> Any:
    if value is None:
        return None
    if spec.is_array:
        return tuple(plausible(random, world, each, share, spec.name) for each in value)
    return plausible(random, world, value, share, spec.name)


def _plausible_value(random: Random, world: World, spec: FieldSpec, value: Any, parent: str) -> Any:
    choose = BY_PARENT.get((parent, spec.name)) or BY_NAME.get(spec.name)
    if spec.kind == "float64":
        choose = _of(*RATES)
    if choose is None and (spec.kind != "string" or spec.is_array):
        return value
    if choose is None:
        choose = _of(*TEXTS)
    if value is None and random.random() < 0.5:
        return None
    if spec.is_array:
        chosen = tuple(choose(random, world) for _ in range(random.choice((0, 1, 1, 2, 3))))
        return tuple(each for each in chosen if each is not None or spec.kind == "uuid")
    chosen = choose(random, world)
    if chosen is None and not spec.nullable and spec.kind != "uuid":
        return value if value is not None else ""
    return chosen


def request_head(api_key: int, version: int, correlation_id: int, client_id: bytes | None = b"fuzz") -> bytes:
    """Return the header of a request."""
    size = -1 if client_id is None else len(client_id)
    tags = b"\0" if is_flexible(api_key, version) else b""
    return struct.pack(">hhih", api_key, version, correlation_id, size) + (client_id or b"") + tags


def request_frame(api_key: int, version: int, entity: Any, correlation_id: int = 7) -> bytes:
    """Return a whole request, without the size prefix; kio writes it, not our own codec."""
    return request_head(api_key, version, correlation_id) + kio_bytes(entity)


def plausible_request(random: Random, world: World, api_key: int, version: int) -> bytes:
    """Return a request of this API and version that makes sense."""
    entity = random_entity(random, request_class(api_key, version))
    entity = plausible(random, world, entity, random.choice(PLAUSIBLE))
    if random.random() < COHERENT:
        entity = adjusted(random, world, api_key, entity)
    return request_frame(api_key, version, entity)


def served() -> list[tuple[ApiKey, list[int]]]:
    """Return every API that the broker serves, with all its versions."""
    apis = []
    for key, row in APIS.items():
        versions = range(row.min_version, row.max_version + 1)
        apis.append((ApiKey(key), [version for version in versions if row.range_for(version) is not None]))
    return apis
