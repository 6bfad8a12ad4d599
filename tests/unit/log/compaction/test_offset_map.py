from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.compaction.offset_map import ENTRY_BYTES, OffsetMap, _prime_at_most


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=6), st.integers(0, 2**62)), max_size=60))
def test_it_answers_as_a_dict_does(puts: list[tuple[bytes, int]]) -> None:
    key_map = OffsetMap(100)
    model: dict[bytes, int] = {}
    for key, offset in puts:
        assert key_map.put(key, offset)
        model[key] = offset
    assert len(key_map) == len(model)
    for key in {key for key, _ in puts} | {b"never put"}:
        assert key_map.get(key) == model.get(key, -1)


def test_a_full_map_refuses_new_keys_and_still_updates_known_ones() -> None:
    key_map = OffsetMap(101, load_factor=1.0)
    keys = [b"%d" % number for number in range(key_map.capacity)]
    assert all(key_map.put(key, offset) for offset, key in enumerate(keys))
    assert len(key_map) == key_map.capacity
    assert not key_map.put(b"one too many", 7)
    assert key_map.put(keys[0], 1000)
    assert key_map.get(keys[0]) == 1000
    assert [key_map.get(key) for key in keys[1:]] == list(range(1, len(keys)))


def test_an_absent_key_is_recognised_in_a_nearly_full_map() -> None:
    key_map = OffsetMap(1009)
    for number in range(key_map.capacity):
        key_map.put(b"%d" % number, number)
    assert all(key_map.get(b"absent %d" % number) == -1 for number in range(200))


def test_the_budget_bounds_the_memory_and_a_small_stretch_takes_less() -> None:
    assert OffsetMap.sized(offsets=10**9, budget_bytes=240_000).size_bytes <= 240_000
    small = OffsetMap.sized(offsets=1000, budget_bytes=128 * 2**20)
    assert small.capacity >= 1000
    assert small.size_bytes < 2000 * ENTRY_BYTES


def test_slots_are_a_prime_number() -> None:
    assert [_prime_at_most(number) for number in (3, 4, 9, 10, 100, 7918)] == [3, 3, 7, 7, 97, 7907]
