"""Requests whose fields fit together: a member that joins, a leader that assigns, a topic that is new.

Fields that each make sense by themselves seldom do so together; without these, most requests about groups
would end at the first check.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

from tests.fuzz.world import World

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.schema.fields import specs_of

Adjust = Callable[[Random, World, Any], Any]


def adjusted(random: Random, world: World, api_key: int, entity: Any) -> Any:
    """Return the message with fields that fit together, if it is of a kind that needs them to."""
    adjust = ADJUST.get(api_key)
    return entity if adjust is None else adjust(random, world, entity)


def subscription(version: int, *topics: str) -> bytes:
    """Return what a consumer tells its group: Kafka's ConsumerProtocolSubscription."""
    names = b"".join(struct.pack(">h", len(each.encode())) + each.encode() for each in topics)
    owned = struct.pack(">i", 0) if version >= 1 else b""
    generation = struct.pack(">i", -1) if version >= 2 else b""
    rack = struct.pack(">h", -1) if version >= 3 else b""
    return (
        struct.pack(">hi", version, len(topics)) + names + struct.pack(">i", -1) + owned + generation + rack
    )


def _with(entity: Any, **fields: Any) -> Any:
    """Return the message with these fields, as far as its version has them."""
    known = {spec.name: spec for spec in specs_of(type(entity))}
    return replace(entity, **{name: value for name, value in fields.items() if name in known})


def _elements(entity: Any, name: str, *values: dict[str, Any]) -> tuple[Any, ...]:
    """Return elements for an array of structs."""
    spec = next(each for each in specs_of(type(entity)) if each.name == name)
    assert spec.struct is not None
    blank = {each.name: each.default for each in specs_of(spec.struct)}
    return tuple(spec.struct(**{**blank, **value}) for value in values)


def _join_group(random: Random, world: World, entity: Any) -> Any:
    metadata = subscription(random.randrange(4), *random.sample(sorted(world.topics), 2))
    names = random.choice((("range",), ("range", "roundrobin"), ("cooperative-sticky", "range")))
    protocols = [{"name": name, "metadata": metadata} for name in names]
    return _with(
        entity,
        group_id=world.group(random),
        session_timeout=timedelta(milliseconds=random.choice((100, 500, 1000))),
        rebalance_timeout=timedelta(milliseconds=random.choice((20, 200))),
        member_id=random.choice(("", "", *world.members)),
        protocol_type="consumer",
        protocols=_elements(entity, "protocols", *protocols),
    )


def _of_a_member(random: Random, world: World, entity: Any) -> Any:
    return _with(
        entity,
        group_id=world.group(random),
        member_id=random.choice(world.members),
        generation_id=random.choice(world.epochs),
        generation_id_or_member_epoch=random.choice(world.epochs),
    )


def _sync_group(random: Random, world: World, entity: Any) -> Any:
    given = [{"member_id": member, "assignment": random.randbytes(8)} for member in set(world.members)]
    return _with(
        _of_a_member(random, world, entity),
        protocol_type="consumer",
        protocol_name="range",
        assignments=_elements(entity, "assignments", *given),
    )


def _consumer_heartbeat(random: Random, world: World, entity: Any) -> Any:
    joins = random.random() < 0.5
    regex = random.choice(("fuzz-.*", "fuzz-(plain|both)", "[a-z]+-compact", "(x+x+)+y", "\\d*"))
    topics = tuple(random.sample(sorted(world.topics), 2))
    owned = _elements(
        entity,
        "topic_partitions",
        {"topic_id": world.topic_id(random), "partitions": (0, random.randrange(3))},
    )
    return _with(
        entity,
        group_id=world.group(random),
        member_id=str(UUID(int=random.randrange(4) + 1)) if joins else random.choice(world.members),
        member_epoch=0 if joins else random.choice((*world.epochs, -1, -2)),
        rebalance_timeout=timedelta(milliseconds=1000 if joins else random.choice((-1, 500))),
        subscribed_topic_names=topics if joins or random.random() < 0.3 else None,
        subscribed_topic_regex=regex if random.random() < 0.4 else None,
        server_assignor=random.choice((None, None, "uniform", "range")),
        topic_partitions=() if joins else random.choice((None, (), owned)),
    )


def _create_topics(random: Random, _world: World, entity: Any) -> Any:
    new = {
        "name": f"fuzz-new-{random.randrange(6)}",
        "num_partitions": random.choice((-1, 1, 2)),
        "replication_factor": random.choice((-1, 1)),
    }
    placed = {"name": f"fuzz-put-{random.randrange(3)}", "num_partitions": -1, "replication_factor": -1}
    (topic, by_hand) = _elements(entity, "topics", new, placed)
    spots = _elements(by_hand, "assignments", {"partition_index": 0, "broker_ids": (World.NODE_ID,)})
    by_hand = replace(by_hand, assignments=spots)
    configs = _elements(topic, "configs", {"name": "cleanup.policy", "value": "compact"})
    topics = (replace(topic, configs=random.choice(((), configs))), by_hand)
    return _with(entity, topics=topics, timeout=timedelta(seconds=10), validate_only=random.random() < 0.3)


def _configs(random: Random, world: World, entity: Any) -> Any:
    known = {"retention.ms": "1000", "cleanup.policy": "compact", "segment.bytes": "1048576"}
    key = random.choice(sorted(known))
    on_topic = {"resource_type": 2, "resource_name": random.choice(sorted(world.topics))}
    on_broker = {"resource_type": 4, "resource_name": random.choice(("", str(World.NODE_ID)))}
    (resource,) = _elements(entity, "resources", random.choice((on_topic, on_topic, on_broker)))
    if hasattr(resource, "configs"):
        name = key if resource.resource_type == 2 else random.choice(("message.max.bytes", f"log.{key}"))
        change: dict[str, Any] = {"name": name, "value": known[key]}
        if "IncrementalAlter" in type(entity).__name__:
            change["config_operation"] = random.randrange(4)
        resource = replace(resource, configs=_elements(resource, "configs", change))
    return _with(entity, resources=(resource,), validate_only=random.random() < 0.3)


def _offset_commit(random: Random, world: World, entity: Any) -> Any:
    if random.random() < 0.5:
        return _of_a_member(random, world, entity)
    return _with(entity, group_id=world.group(random), member_id="", generation_id_or_member_epoch=-1)


ADJUST: dict[int, Adjust] = {
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.SYNC_GROUP: _sync_group,
    ApiKey.HEARTBEAT: _of_a_member,
    ApiKey.LEAVE_GROUP: _of_a_member,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_heartbeat,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DESCRIBE_CONFIGS: _configs,
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
}
