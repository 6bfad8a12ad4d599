import json
import os
import signal

import pytest

from ottla.protocol.records.records import Record, encode_batch

VALUES = r"%v\n"


@pytest.fixture
def orders(peer):
    """Two partitions: three records in the first, one in the second."""
    topic = peer.add_topic("orders", 2)
    values = [Record(n, 1000 * n, b"k%d" % n, b"v%d" % n, ()) for n in range(3)]
    topic.partitions[0].append(encode_batch(values))
    topic.partitions[1].append(encode_batch([Record(0, 500, None, b"other", ())]))
    return topic


def test_everything_there_is_comes_out_as_lines(ottla, orders):
    done = ottla("consume", "orders", "--from-beginning", "--exit", "--format", VALUES)
    assert (done.code, done.err) == (0, "")
    assert sorted(done.lines) == ["other", "v0", "v1", "v2"]


def test_in_a_pipe_records_are_lines_of_json(ottla, orders):
    done = ottla("consume", "--topic", "orders", "--from-beginning", "--exit")
    assert sorted(json.loads(line)["value"] for line in done.lines) == ["other", "v0", "v1", "v2"]


def test_a_table_shows_records_to_people_and_never_moves_their_cursor(ottla, orders):
    nasty = Record(0, 0, b"\xff", b"\x1b[2Jgone", (("from", b"me"),))
    orders.partitions[1].append(encode_batch([nasty, Record(1, -1, None, None, ())]))
    done = ottla("consume", "orders", "-p", "1", "-o", "start", "-e", "-f", "table")
    assert done.lines[0].split("  ")[0::2] == ["1:0", "other"]
    assert done.lines[1].split("  ")[0] == "1:1"
    assert done.lines[1].split("  ")[2:] == [r"\xff", r"\x1b[2Jgone", "[from=me]"]
    assert done.lines[2].split("  ") == ["1:2", "-", "null"]


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        ("start", ["v0", "v1", "v2"]),
        ("1", ["v1", "v2"]),
        ("3", []),
        ("end", []),
        ("-1", ["v2"]),
        ("-99", ["v0", "v1", "v2"]),
        ("@1000", ["v1", "v2"]),
        ("@1970-01-01T00:00:02", ["v2"]),
        ("@2030-01-01", []),
        ("1:2", ["v1"]),
        ("start:2", ["v0", "v1"]),
        (":2", ["v0", "v1"]),
        ("-2:end", ["v1", "v2"]),
        ("@1000:@2000", ["v1"]),
        ("@1970-01-01T00:00:01:end", ["v1", "v2"]),
        ("1:99", ["v1", "v2"]),
    ],
)
def test_reading_begins_at_the_given_position(ottla, orders, offset, found):
    assert ottla("consume", "orders", "-p", "0", "-o", offset, "-e", "-f", VALUES).lines == found


def test_offsets_of_single_partitions_choose_the_partitions_too(ottla, orders):
    assert ottla("consume", "orders", "-o", "0=2", "-e", "-f", VALUES).lines == ["v2"]
    both = ottla("consume", "orders", "-o", "0=2,1=0", "-e", "-f", VALUES)
    assert sorted(both.lines) == ["other", "v2"]


def test_enough_is_enough(ottla, orders):
    assert ottla("consume", "orders", "-p", "0", "-o", "start", "-n", "2", "-f", VALUES).lines == ["v0", "v1"]


def test_the_end_is_where_it_was_at_the_start(ottla, orders, peer, monkeypatch):
    from ottla.client.consumer import AsyncConsumer

    getmany = AsyncConsumer.getmany

    async def getmany_while_somebody_writes(self, **options):
        orders.partitions[0].append(encode_batch([Record(0, 0, None, b"late", ())]))
        return await getmany(self, **options)

    monkeypatch.setattr(AsyncConsumer, "getmany", getmany_while_somebody_writes)
    done = ottla("consume", "orders", "-p", "0", "-o", "start", "-e", "-f", VALUES)
    assert done.lines == ["v0", "v1", "v2"]


def test_a_template_shapes_the_output(ottla, orders):
    done = ottla("consume", "orders", "-p", "0", "-o", "start", "-e", "-f", r"%t %p:%o %k=%v\n")
    assert done.lines[0] == "orders 0:0 k0=v0"


def test_json_is_one_object_per_line(ottla, orders):
    done = ottla("consume", "orders", "-p", "1", "-o", "start", "-e", "--format", "json")
    assert [json.loads(line) for line in done.lines] == [
        {
            "topic": "orders",
            "partition": 1,
            "offset": 0,
            "timestamp": 500,
            "key": None,
            "value": "other",
            "headers": [],
        }
    ]


def test_an_empty_topic_ends_at_once(ottla, peer):
    peer.add_topic("orders", 3)
    done = ottla("consume", "orders", "--from-beginning", "-e")
    assert (done.code, done.out) == (0, b"")


def test_interrupting_is_the_normal_way_to_end(ottla, orders, monkeypatch):
    from ottla.cli.consume import reading

    written = reading.write_bytes

    def write_then_interrupt(data):
        written(data)
        if data:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(reading, "write_bytes", write_then_interrupt)
    done = ottla("consume", "orders", "-p", "0", "--from-beginning", "-f", VALUES)
    assert done.code == 0
    assert done.err == "stopped; to resume:  ottla consume orders --offset 0=3\n"
    assert done.lines == ["v0", "v1", "v2"]


@pytest.mark.parametrize(
    ("args", "code", "reason"),
    [
        (("--from-beginning", "-o", "5"), 2, "--from-beginning and --offset exclude each other"),
        (
            ("-o", "soon"),
            2,
            "'soon' is not an offset: write start, end, N, -N (the last N), @TIME, or FROM:TO",
        ),
        (("-o", "5:3"), 2, "'5:3' ends before it starts"),
        (("-o", "0=1", "-p", "1"), 2, "--offset P=N names the partitions itself"),
        (("-o", "@soon"), 2, "'soon' is not a time"),
        (("-f", "%q"), 2, "%q is not known"),
        (("-o", "1"), 1, "an offset belongs to one partition, but orders has 2"),
        (("-p", "0", "-o", "9"), 1, "orders-0 has no offset 9: it holds 0 to 2"),
        (("-p", "7"), 1, "orders has no partition 7: it has 2, numbered from 0"),
        (("-n", "0"), 2, "0 is less than 1"),
    ],
)
def test_mistakes_are_explained(ottla, orders, args, code, reason):
    failed = ottla("consume", "orders", *args)
    assert failed.code == code
    assert failed.err.startswith("error: ")
    assert reason in failed.err


def test_a_topic_is_never_created_by_reading_it(ottla, peer):
    peer.auto_create = True
    failed = ottla("consume", "orders")
    assert failed.code == 1
    assert "there is no topic 'orders'" in failed.err
    assert "there are no topics yet" in failed.err
    assert peer.topics == {}


def test_records_that_vanish_while_they_are_read_are_explained(ottla, orders, monkeypatch):
    from ottla.client.consumer import AsyncConsumer

    poll_rows = AsyncConsumer.poll_rows

    async def poll_after_retention(self, *given, **options):
        orders.partitions[0].start = 2
        return await poll_rows(self, *given, **options)

    monkeypatch.setattr(AsyncConsumer, "poll_rows", poll_after_retention)
    failed = ottla("consume", "orders", "-p", "0", "-o", "start")
    assert failed.code == 1
    assert "orders-0 has no offset 0: retention or DeleteRecords removed it" in failed.err
    assert "ottla consume orders --offset start" in failed.err


@pytest.mark.parametrize("output", ["%v\\n", "%o=%v;", "%t/%v\\n", "json"])
def test_whole_topics_are_written_as_single_records_are(ottla, orders, output):
    whole = ottla("consume", "orders", "-o", "start", "-e", "-f", output)
    limited = ottla("consume", "orders", "-o", "start", "-e", "-f", output, "-n", "1000000")
    assert whole.code == limited.code == 0
    assert sorted(whole.out.split(b"v")) == sorted(limited.out.split(b"v"))
    assert whole.out


def test_a_range_ends_in_the_middle_of_a_batch(ottla, peer):
    peer.add_topic("lines")
    ottla("produce", "lines", stdin=b"".join(b"%d\n" % number for number in range(100)))
    read = ottla("consume", "lines", "-o", "10:13", "-f", "%v,")
    assert (read.code, read.out) == (0, b"10,11,12,")


def test_null_values_are_empty_in_templates(ottla, peer):
    peer.add_topic("lines")
    ottla("produce", "lines", "-K", ":", "--empty-null", stdin=b"a:\nb:x\n")
    assert ottla("consume", "lines", "-o", "start", "-e", "-f", "%v\\n").out == b"\nx\n"
    assert ottla("consume", "lines", "-o", "start", "-e", "-f", "%k=%v\\n").out == b"a=\nb=x\n"
