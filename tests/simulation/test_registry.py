"""Registry processes that write at once, with every kind of trouble on the way to the log."""

from __future__ import annotations

import pytest
from tests.simulation.registry_world import World, contents, replayed

from ottla.registry.records import KeyType, decode, read_schema
from ottla.registry.subjects import context_of
from ottla.testing.simulation.loop import SimLoop


@pytest.mark.parametrize("seed", range(8))
def test_ids_are_dense_and_never_reused_and_nothing_acknowledged_is_lost(seed: int) -> None:
    world = World(seed)
    SimLoop(seed).run(world.run())
    meaning: dict[tuple[str, int], bytes] = {}
    written: set[tuple[str, int, int, str]] = set()
    seen: dict[str, list[int]] = {}
    for record in world.log.committed:
        decoded = decode(record.key, record.value)
        if decoded is None or decoded.key.type is not KeyType.SCHEMA or decoded.value is None:
            continue
        schema = read_schema(decoded.key, decoded.value, record.timestamp)
        context = context_of(schema.subject)
        assert meaning.setdefault((context, schema.id), schema.md5) == schema.md5, "an id has two meanings"
        written.add((schema.subject, schema.version, schema.id, schema.schema))
        if schema.id not in seen.setdefault(context, []):
            seen[context].append(schema.id)
    for ids in seen.values():
        assert ids == list(range(1, len(ids) + 1)), "ids are given out in order, without gaps"
    assert set(world.acked.registered) <= written, "what was acknowledged is in the log"
    assert len(world.acked.registered) > 20, "most calls must get through, or nothing is tested"


@pytest.mark.parametrize("seed", range(4))
def test_the_state_is_the_replay_of_what_compaction_leaves(seed: int) -> None:
    world = World(seed + 1000, processes=2)
    SimLoop(seed).run(world.run())
    everything = replayed(world.log.committed)
    left = replayed(world.log.compacted(len(world.log.committed)))
    assert contents(left) == contents(everything)
    assert left.position == everything.position


def test_writers_do_meet() -> None:
    world = World(3)
    SimLoop(3).run(world.run())
    assert world.acked.conflicts > 0, "otherwise the conditional append is not tested"
