"""Transactions through each client library: what is committed is read, what is not is not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import Outgoing, wait_until
from tests.integration.transaction_libraries import LIBRARIES
from tests.integration.transaction_stage import BROKER_SETTINGS, Stage, out, stage
from tests.integration.transactions import END
from tests.integration.wire import Wire, fetch_fields
from tests.integration.wire_transactions import fetch_offsets

from ottla.protocol.api_keys import ApiKey

__all__ = ["BROKER_SETTINGS", "stage"]

FIFTY = 50
READ_COMMITTED = 1


def test_every_library_reads_what_was_committed_and_nothing_that_was_aborted(stage: Stage) -> None:
    topic = stage.topic(partitions=2)
    producer = stage.producer()
    for number in range(6):
        producer.begin()
        for partition in range(2):
            producer.send(topic, out(b"%d-a" % number, b"%d-b" % number, partition=partition))
        if number % 3 == 1:
            producer.abort()
        else:
            producer.commit()
    kept = [b"%d-%c" % (number, letter) for number in (0, 2, 3, 5) for letter in b"ab"]
    every = [b"%d-%c" % (number, letter) for number in range(6) for letter in b"ab"]
    for partition in range(2):
        stage.fill(topic, partition, [END])
    places = [(topic, 0), (topic, 1)]
    for library in LIBRARIES.values():
        with library.reader(stage.address) as reader:
            assert reader.read_until_end(places) == dict.fromkeys(places, kept), library.name
        with library.reader(stage.address, committed=False) as reader:
            assert reader.read_until_end(places) == dict.fromkeys(places, every), library.name


def test_readers_of_committed_records_stop_before_an_open_transaction_and_continue_when_it_ends(
    stage: Stage,
) -> None:
    topic = stage.topic()
    place = (topic, 0)
    stage.fill(topic, 0, [b"before"])
    producer = stage.producer()
    producer.begin()
    producer.send(topic, out(b"open"))
    stage.fill(topic, 0, [b"after"])
    reader, uncommitted = stage.reader(), stage.reader(committed=False)
    assert (reader.end(place), uncommitted.end(place)) == (1, 3)
    reader.assign({place: 0})
    found = []
    wait_until(lambda: bool(found.extend(reader.poll(0.1)) or found), "the first record")
    assert not reader.poll(0.5)
    producer.commit()
    # After the marker at offset 3.
    wait_until(lambda: reader.end(place) == 4, "the transaction to be complete")
    wait_until(lambda: len(found.extend(reader.poll(0.1)) or found) == 3, "the rest")
    assert found == [(place, 0, b"before"), (place, 1, b"open"), (place, 2, b"after")]


def test_transactions_of_several_producers_share_a_partition(stage: Stage) -> None:
    topic = stage.topic()
    producers = [stage.producer() for _ in range(4)]
    for producer in producers:
        producer.begin()
    for turn in range(3):
        for number, producer in enumerate(producers):
            producer.send(topic, out(b"%d:%d" % (number, turn)))
        stage.fill(topic, 0, [b"plain:%d" % turn])
    producers[1].abort()
    producers[3].commit()
    producers[0].commit()
    producers[2].abort()
    (found,) = stage.read(topic)
    assert found == [
        value for turn in range(3) for value in (b"0:%d" % turn, b"3:%d" % turn, b"plain:%d" % turn)
    ]


def test_a_transaction_over_50_partitions_is_all_or_nothing(stage: Stage) -> None:
    topic = stage.topic(partitions=FIFTY)
    producer = stage.producer()
    for name, ends in ((b"kept", producer.commit), (b"dropped", producer.abort), (b"again", producer.commit)):
        producer.begin()
        producer.send(topic, [Outgoing(name, partition=index) for index in range(FIFTY)])
        ends()
    assert stage.read(topic, FIFTY) == [[b"kept", b"again"]] * FIFTY


def test_the_offsets_of_many_groups_are_committed_with_the_transaction_or_not_at_all(stage: Stage) -> None:
    topic = stage.topic(partitions=3)
    places = [(topic, partition) for partition in range(3)]
    groups = [stage.name() for _ in range(10)]
    at_once = stage.library.groups_at_once
    producer = stage.producer()
    for offset, ends in ((5, producer.commit), (7, producer.abort)):
        for first in range(0, len(groups), at_once):
            producer.begin()
            producer.send(topic, out(b"%d" % offset))
            for group in groups[first : first + at_once]:
                producer.send_offsets(group, {place: offset + groups.index(group) for place in places})
            ends()
    for number, group in enumerate(groups):
        assert stage.committed(group, *places) == [5 + number] * 3
    assert stage.read(topic, 3) == [[b"5"] * len(range(0, len(groups), at_once)), [], []]


def test_offsets_are_not_seen_before_the_commit_and_who_wants_stable_ones_must_wait(
    stage: Stage,
) -> None:
    topic, group = stage.topic(), stage.name()
    producer = stage.producer()
    producer.begin()
    producer.send_offsets(group, {(topic, 0): 3})
    producer.commit()
    wait_until(lambda: stage.committed(group, (topic, 0)) == [3], "the offset to be committed")
    producer.begin()
    producer.send_offsets(group, {(topic, 0): 8})
    with Wire(stage.address) as wire:
        assert fetch_offsets(wire, group, require_stable=False) == {(topic, 0): 3}
        assert fetch_offsets(wire, group, require_stable=True) == {
            (topic, 0): ErrorCode.unstable_offset_commit
        }
        producer.send_offsets(group, {(topic, 0): 9})  # the last one counts
        producer.commit()
        wait_until(lambda: stage.committed(group, (topic, 0)) == [9], "the last offset to be committed")


def test_a_transaction_in_which_nothing_happened_leaves_no_trace(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer()
    for ends in (producer.commit, producer.abort, producer.commit):
        producer.begin()
        ends()
    producer.begin()
    producer.send(topic, out(b"something"))
    producer.commit()
    wait_until(lambda: stage.reader().end((topic, 0)) == 2, "the marker")
    assert stage.read(topic) == [[b"something"]]


def test_a_waiting_reader_is_woken_by_the_end_of_the_transaction(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer()
    producer.begin()
    producer.send(topic, out(b"awaited"))
    with Wire(stage.address) as wire, ThreadPoolExecutor(1) as pool:
        fields = fetch_fields(topic, (0, 0), max_wait_ms=60_000, isolation_level=READ_COMMITTED)
        sent = wire.send(ApiKey.FETCH, 12, **fields)
        waiting = pool.submit(wire.receive, ApiKey.FETCH, 12, sent)
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        producer.commit()
        (partition,) = waiting.result(30).responses[0].partitions
    assert partition.last_stable_offset == 2
    assert b"awaited" in bytes(partition.records)
