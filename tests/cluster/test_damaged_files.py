"""Harm done to the log files of a broker at rest: torn, flipped, emptied, gone. Then it is started again.

Whatever is intact must be served, at its offset; whatever is not must be named, and kept for a human.
"""

from __future__ import annotations

import random

import pytest
from confluent_kafka import KafkaException
from tests.cluster.damage import (
    BATCHES,
    COUNT,
    PLACE,
    RECORDS,
    TOPIC,
    Damaged,
    append,
    batch,
    flip,
    overwrite,
    send,
    value,
)
from tests.cluster.reading import read_one
from tests.cluster.wire import Produced, WirePeer

from ottla.protocol.records.batch import stamp


def next_batch(size: int | None = None) -> bytes:
    """Return the batch that would have come next, stamped as in the log, cut to `size`."""
    data = bytearray(batch(BATCHES))
    stamp(memoryview(data), COUNT, 2)
    return bytes(data[:size])


def test_an_untouched_directory_is_served_whole(damaged: Damaged) -> None:
    broker = damaged.as_process().start()
    damaged.assert_whole()
    assert "ERROR" not in damaged.said
    broker.stop()


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(next_batch(5), id="a-few-bytes"),
        pytest.param(next_batch(61), id="a-header"),
        pytest.param(next_batch(300), id="half-a-batch"),
        pytest.param(bytes(3), id="three-zeros"),
        pytest.param(bytes(4096), id="a-page-of-zeros"),
    ],
)
def test_a_torn_append_is_cut_off(damaged: Damaged, tail: bytes) -> None:
    log = damaged.files(".log")[-1]
    whole = log.stat().st_size
    append(log, tail)
    damaged.start()
    assert log.stat().st_size == whole
    assert damaged.files(".quarantine") == []
    assert str(log) in damaged.said
    damaged.assert_whole()


def test_bytes_at_the_end_that_are_no_append_are_kept_in_quarantine(damaged: Damaged) -> None:
    log = damaged.files(".log")[-1]
    garbage = random.Random(5).randbytes(500)
    append(log, garbage)
    damaged.start()
    (kept,) = damaged.files(".quarantine")
    assert kept.read_bytes() == garbage
    assert str(kept) in damaged.said
    damaged.assert_whole()


def test_a_whole_batch_at_the_end_with_a_wrong_checksum_is_kept_in_quarantine(killed: Damaged) -> None:
    log = killed.files(".log")[-1]
    bad = bytearray(next_batch())
    bad[-1] ^= 1
    append(log, bytes(bad))
    killed.start()
    (kept,) = killed.files(".quarantine")
    assert kept.read_bytes() == bytes(bad)
    assert str(kept) in killed.said
    killed.assert_whole()


FIELDS = {"length": 8, "magic": 16, "crc": 17, "attributes": 22, "last-offset-delta": 26, "record-count": 60}


@pytest.mark.parametrize("where", [*FIELDS, "records"])
@pytest.mark.parametrize("segment", ["active", "sealed"])
def test_a_flipped_bit_costs_the_batch_it_hits_and_no_other(
    killed: Damaged, where: str, segment: str
) -> None:
    log = killed.files(".log")[-1 if segment == "active" else 2]
    position, size, base_offset = killed.batches_of(log)[3]
    bad = log.read_bytes()[position : position + size]
    flip(log, position + FIELDS.get(where, 100), bit=1)
    killed.start()
    killed.assert_served(lost=range(base_offset, base_offset + RECORDS))
    (kept,) = killed.files(".quarantine")
    assert str(kept) in killed.said
    pairs = enumerate(zip(kept.read_bytes(), bad, strict=True))
    differing = [at for at, (one, other) in pairs if one != other]
    assert differing == [FIELDS.get(where, 100)]
    killed.assert_producer_goes_on()


@pytest.mark.parametrize(("field", "at"), [("base-offset", 7), ("leader-epoch", 15)])
def test_a_flipped_bit_that_no_checksum_covers_costs_no_more_than_its_batch(
    killed: Damaged, field: str, at: int
) -> None:
    log = killed.files(".log")[2]
    position, _, base_offset = killed.batches_of(log)[3]
    flip(log, position + at, bit=1)
    killed.start()
    is_quarantined = bool(killed.files(".quarantine"))
    killed.assert_served(lost=range(base_offset, base_offset + RECORDS) if is_quarantined else ())
    killed.assert_producer_goes_on()
    assert is_quarantined == (field == "base-offset")


def test_damage_at_many_places_leaves_all_that_is_intact(killed: Damaged) -> None:
    choose = random.Random(11)
    lost: set[int] = set()
    for log in killed.files(".log"):
        for position, size, base_offset in choose.sample(killed.batches_of(log), 4):
            if base_offset < COUNT - 4 * RECORDS:
                overwrite(log, position + choose.randrange(8, size - 50), choose.randbytes(40))
                lost.update(range(base_offset, base_offset + RECORDS))
    killed.start()
    killed.assert_served(lost=sorted(lost))
    killed.assert_producer_goes_on()
    assert len(killed.files(".quarantine")) > 5


def test_rot_in_a_flushed_batch_is_seen_by_readers_and_hides_nothing_else(stopped: Damaged) -> None:
    log = stopped.files(".log")[2]
    position, _, base_offset = stopped.batches_of(log)[3]
    flip(log, position + 100)
    address = stopped.start()
    with pytest.raises(KafkaException, match="CRC"):
        read_one(address, PLACE, base_offset)
    after = base_offset + RECORDS
    assert read_one(address, PLACE, after) == (after, value(after))
    assert read_one(address, PLACE, base_offset - 1) == (base_offset - 1, value(base_offset - 1))
    stopped.assert_producer_goes_on()


@pytest.mark.parametrize("how", ["emptied", "missing"])
def test_a_lost_segment_is_named_and_the_others_are_served(damaged: Damaged, how: str) -> None:
    logs = damaged.files(".log")
    lost = range(int(logs[2].stem), int(logs[3].stem))
    if how == "emptied":
        overwrite(logs[2], 0, b"")
        with logs[2].open("r+b") as file:
            file.truncate(0)
    else:
        logs[2].unlink()
    damaged.start()
    damaged.assert_served(lost=lost)
    damaged.assert_producer_goes_on()
    if how == "emptied":
        assert f"{logs[2]} is empty" in damaged.said
    elif damaged.state == "killed":  # after a clean stop there is no recovery
        assert f"offsets {lost.start} to {lost.stop - 1} are missing" in damaged.said


def test_an_empty_segment_at_the_end_is_where_the_log_continues(killed: Damaged) -> None:
    (killed.partition / f"{COUNT:020d}.log").touch()
    killed.start()
    killed.assert_whole()
    killed.broker.restart()
    with WirePeer(killed.broker.address) as peer:
        assert peer.produce(TOPIC, 0, batch(BATCHES + 1)) == Produced(0, COUNT + RECORDS)


def test_an_empty_segment_that_a_broken_off_roll_left_hides_no_record(damaged: Damaged) -> None:
    """The roll failed at its .log file (no descriptors, a full disk); the old segment stayed active."""
    last = damaged.files(".log")[-1]
    _, _, base_offset = damaged.batches_of(last)[-2]
    (damaged.partition / f"{base_offset:020d}.log").touch()
    damaged.start()
    damaged.assert_whole()


def test_leftovers_of_cleaning_and_deleting_are_removed(damaged: Damaged) -> None:
    first = damaged.files(".log")[0]
    leftovers = [
        damaged.partition / f"{first.name}.cleaned",
        damaged.partition / f"{first.name}.deleted",
        damaged.partition / f"{7:020d}.index",
        damaged.partition / "leader-epoch-checkpoint.tmp",
    ]
    for path in leftovers:
        path.write_bytes(b"left behind")
    damaged.start()
    assert [path for path in leftovers if path.exists()] == []
    damaged.assert_whole()


def test_a_swap_that_was_cut_short_is_completed(damaged: Damaged) -> None:
    first, second, third = damaged.files(".log")[:3]
    (damaged.partition / f"{first.name}.swap").write_bytes(first.read_bytes() + second.read_bytes())
    first.with_suffix(".index").unlink()
    first.with_suffix(".timeindex").unlink()
    damaged.start()
    assert not second.exists()
    assert third.exists()
    damaged.assert_whole()


def test_a_log_that_no_topic_owns_is_kept_aside_even_with_the_longest_name(damaged: Damaged) -> None:
    nobodys = damaged.data / ("x" * 249 + "-0")
    nobodys.mkdir()
    (nobodys / f"{0:020d}.log").write_bytes(damaged.files(".log")[0].read_bytes())
    damaged.start()
    (kept,) = damaged.data.glob("xxx*-stray")
    assert (kept / f"{0:020d}.log").read_bytes() == damaged.files(".log")[0].read_bytes()
    assert kept.name in damaged.said
    damaged.assert_whole()


def test_what_does_not_belong_to_it_is_left_alone(damaged: Damaged) -> None:
    strangers = [damaged.data / "notes.txt", damaged.data / "lost+found" / "x", damaged.data / "t-x" / "y"]
    for path in strangers:
        path.parent.mkdir(exist_ok=True)
        path.write_text("not yours")
    damaged.start()
    damaged.assert_whole()
    assert all(path.read_text() == "not yours" for path in strangers)


def test_a_false_claim_of_a_clean_stop_is_seen_through_at_the_tail(killed: Damaged) -> None:
    (killed.data / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    append(killed.files(".log")[-1], next_batch(100))
    killed.start()
    killed.assert_whole()


def test_without_the_marker_of_the_clean_stop_everything_is_still_there(stopped: Damaged) -> None:
    (stopped.data / ".kafka_cleanshutdown").unlink()
    stopped.start()
    stopped.assert_whole()


def test_what_was_repaired_stays_repaired(killed: Damaged) -> None:
    log = killed.files(".log")[-1]
    position, _, base_offset = killed.batches_of(log)[2]
    flip(log, position + 100)
    append(log, next_batch(70))
    lost = range(base_offset, base_offset + RECORDS)
    broker = killed.as_process().start()
    killed.assert_served(lost=lost)
    for again in ("killed", "stopped"):
        errors = killed.said.count("ERROR")
        if again == "killed":
            broker.kill()
        else:
            broker.stop()
        broker.start()
        assert killed.said.count("ERROR") == errors
        killed.assert_served(lost=lost)
    send(broker.address, [BATCHES])
