"""Compaction of whole logs on a simulated disk, against a model that is a list of records."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.log.compaction_rig import CONFIG, DAY, FOLDER, Killed, Rig, check, filled, latest_of

from ottla.log.compaction.job import CannotCompact, LogChanged
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.records.batch import check_batch
from ottla.protocol.records.records import Record, encode_batch


def test_only_the_latest_value_of_each_key_stays_where_it_was() -> None:
    rig = filled()
    before = rig.log.size_bytes
    rig.compact()
    check(rig)
    assert rig.log.size_bytes < before
    assert rig.cleaned_to == rig.log.active.base_offset
    assert latest_of(rig.records()) == latest_of(list(rig.written.values()))


def test_small_neighbours_become_one_segment() -> None:
    rig = Rig()
    for number in range(40):
        rig.append((b"key", b"x" * 200), (b"other %d" % (number % 2), b"y"))
    many = len(rig.log.segments)
    rig.compact()
    rig.compact()
    assert many > 16
    assert len(rig.log.segments) <= many // 4
    check(rig)


def test_tombstones_go_a_while_after_the_first_round_that_saw_them() -> None:
    rig = filled()
    rig.compact()
    rig.clock.advance(DAY - 1)
    for number in range(6):
        rig.append((b"more %d" % number, b"z" * 60))
    rig.compact()
    assert any(record.value is None for record in rig.records())
    rig.clock.advance(1)
    for number in range(6):
        rig.append((b"even more %d" % number, b"z" * 60))
    rig.compact()
    assert all(record.value is not None for record in rig.records())
    assert b"once 1" not in latest_of(rig.records())
    check(rig)


def test_a_round_with_a_small_map_comes_as_far_as_the_map_reaches() -> None:
    rig = filled()
    rig.flush()
    end = rig.log.active.base_offset
    reached = [rig.compact(map_bytes=24 * 13).end_offset]
    check(rig)
    while reached[-1] < end:
        reached.append(rig.compact(map_bytes=24 * 13).end_offset)
        check(rig)
    assert len(reached) > 1
    assert reached == sorted(set(reached))


def test_a_batch_with_more_keys_than_the_map_holds_is_reported() -> None:
    rig = Rig()
    rig.append(*((b"%d" % number, b"") for number in range(30)))
    rig.log.roll()
    rig.flush()
    with pytest.raises(CannotCompact, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        rig.round(map_bytes=24 * 11).prepare()


def test_nothing_above_the_stable_offset_supersedes_anything() -> None:
    rig = filled()
    assert rig.cleanable().dirty_bytes == 0, "nothing was flushed yet"
    rig.flush()
    assert rig.cleanable().dirty_bytes > 0


def test_a_second_round_changes_nothing() -> None:
    rig = filled()
    rig.compact()
    rig.compact()
    before, files = rig.batches(), rig.files()
    rig.cleaned_to = None
    rig.compact()
    assert rig.batches() == before
    assert rig.files() == files


def test_producers_can_be_rebuilt_from_what_is_left() -> None:
    rig = filled(rounds=20)
    for number in range(20):
        rig.append((b"key %d" % (number % 3), b"later"), (b"once %d" % number, b"later"))
    rig.log.roll()
    rig.compact()
    check(rig)
    kept = {p: (e.epoch, e.last_sequence) for p, e in rig.log.producers.producers.items()}
    for name in rig.files():
        if name.endswith(".snapshot"):
            rig.disk.remove(f"{FOLDER}/{name}")
    rig.disk.kill()
    rig.reopen()
    rebuilt = {p: (e.epoch, e.last_sequence) for p, e in rig.log.producers.producers.items()}
    assert rebuilt == kept
    assert set(kept) == {0, 1}


def test_indexes_of_a_compacted_segment_are_those_a_rebuild_gives() -> None:
    rig = filled()
    rig.compact()
    for segment in rig.log.sealed:
        paths = [path for path in segment.files.paths() if path.endswith("index") and rig.disk.exists(path)]
        stored = [rig.disk.read_file(path) for path in paths]
        segment.rebuild_indexes("to compare")
        assert [rig.disk.read_file(path) for path in paths] == stored
        assert any(stored)


def test_damaged_batches_are_never_copied() -> None:
    rig = filled()
    rig.flush()
    rig.disk.contents(rig.log.sealed[1].files.path(".log"))[100] ^= 1
    with pytest.raises(CorruptMessage):
        rig.compact()
    assert not any(name.endswith(".cleaned") for name in rig.files())


def test_a_copy_of_segments_that_are_gone_is_thrown_away() -> None:
    rig = filled()
    rig.flush()
    work = rig.round()
    work.prepare()
    group = next(iter(work.groups()))
    cleaned = work.copy(group)
    assert cleaned is not None
    rig.log.remove_segments(rig.log.sealed[:1], "to be in the way")
    before = rig.records()
    with pytest.raises(LogChanged):
        work.swap_in(group, cleaned)
    assert rig.records() == before
    assert not any(name.endswith((".cleaned", ".swap")) for name in rig.files())


def test_a_transaction_that_is_still_open_is_out_of_reach() -> None:
    rig = filled(rounds=4)
    offset = rig.log.log_end_offset
    batch = memoryview(
        encode_batch(
            [Record(0, rig.clock.wall_ms(), b"key 1", b"perhaps")],
            producer_id=9,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )
    rig.log.verifications.begin(9, 0, 0).confirm()
    rig.log.append(batch, check_batch(batch), 0, rig.clock.wall_ms())
    rig.written[offset] = Record(offset, rig.clock.wall_ms(), b"key 1", b"perhaps")
    for number in range(10):
        rig.append((b"after %d" % number, b"z" * 60))
    rig.flush()
    work = rig.round()
    work.prepare()
    assert work.end_offset <= offset


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_crash_between_any_two_changes_leaves_each_group_as_before_or_as_after(power_cut: bool) -> None:
    def prepared() -> Rig:
        rig = filled(rounds=8)
        rig.flush()
        rig.disk.changes = 0
        return rig

    done = prepared()
    before = done.batches()
    done.compact()
    after, changes = done.batches(), done.disk.changes
    assert before != after
    assert changes > 40
    outcomes = set()
    for lives in range(changes + 1):
        rig = prepared()
        rig.disk.lives = lives
        try:
            rig.compact()
        except Killed:
            pass
        rig.disk.lives = None
        if power_cut:
            rig.disk.crash(random.Random(lives))
        else:
            rig.disk.kill()
        rig.reopen()
        rig.cleaned_to = None  # it is written after the last swap
        check(rig)
        assert not rig.log.holes
        assert not any(name.endswith((".cleaned", ".swap", ".deleted")) for name in rig.files())
        found = rig.batches()
        assert all(batch in before or batch in after for batch in found)
        outcomes.add(tuple(batch for _, batch in found))
    assert tuple(batch for _, batch in before) in outcomes
    assert tuple(batch for _, batch in after) in outcomes


keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e", None])
values = st.sampled_from([None, b"", b"x" * 30, b"y" * 90])
steps = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(st.tuples(keys, values), min_size=1, max_size=5),
        st.integers(0, 4),
        st.integers(-1, 1),
    ),
    st.tuples(st.just("compact"), st.sampled_from([24 * 11, 1 << 16])),
    st.tuples(st.just("roll")),
    st.tuples(st.just("wait"), st.sampled_from([1, DAY])),
    st.tuples(st.just("delete records"), st.floats(0, 1)),
    st.tuples(st.just("crash"), st.integers(0, 1000)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=4, max_size=30))
def test_a_compacted_log_keeps_its_laws_whatever_happens_to_it(steps: list[tuple[object, ...]]) -> None:
    rig = Rig(config=replace(CONFIG, segment_bytes=650))
    for step in [*steps, ("roll",), ("compact", 1 << 16)]:
        match step:
            case "append", list(pairs), int(codec), int(producer_id):
                rig.append(*pairs, codec=codec, producer_id=producer_id)
            case "compact", int(map_bytes):
                rig.compact(map_bytes)
            case ("roll",):
                rig.log.roll()
            case "wait", int(wait_ms):
                rig.clock.advance(wait_ms)
            case "delete records", float(share):
                rig.log.delete_records_before(int(rig.log.log_end_offset * share))
            case "crash", int(seed):
                rig.flush()
                rig.disk.crash(random.Random(seed))
                rig.reopen()
        check(rig)
