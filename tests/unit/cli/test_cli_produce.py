import asyncio
import importlib
import json
import os
import signal

import pytest
from kio.schema.errors import ErrorCode

from ottla.client.producer.sender import SenderStats
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaStorageError
from ottla.protocol.records.batch import decode_header

produce_command = importlib.import_module("ottla.cli.produce.sending")


def stored(peer, topic="orders"):
    return [record for partition in peer.topics[topic].partitions for record in partition.records()]


def test_each_line_is_a_record_and_the_count_goes_to_standard_error(ottla, peer):
    peer.add_topic("orders")
    done = ottla("produce", "orders", stdin=b"one\n\nthree")
    assert (done.code, done.out, done.err) == (0, b"", "Wrote 3 records to orders\n")
    assert [(each.key, each.value) for each in stored(peer)] == [
        (None, b"one"),
        (None, b""),
        (None, b"three"),
    ]


def test_arguments_are_records_too(ottla, peer):
    peer.add_topic("orders")
    assert ottla("produce", "orders", "good morning", "-k", "greeting").err == "Wrote 1 record to orders\n"
    assert [(each.key, each.value) for each in stored(peer)] == [(b"greeting", b"good morning")]


def test_keys_are_split_off_at_the_first_separator(ottla, peer):
    peer.add_topic("orders")
    ottla("produce", "orders", "--key-separator", "::", stdin=b"a::b::c\n::x\n")
    assert [(each.key, each.value) for each in stored(peer)] == [(b"a", b"b::c"), (b"", b"x")]


def test_empty_can_mean_null(ottla, peer):
    peer.add_topic("orders")
    ottla("produce", "orders", "-K", ":", "--empty-null", stdin=b"a:\n:b\n")
    assert [(each.key, each.value) for each in stored(peer)] == [(b"a", None), (None, b"b")]


def test_empty_keys_and_values_are_null_among_many_lines(ottla, peer):
    peer.add_topic("orders")
    lines = [b"a:1", b"b:2", b":3", b"c:", b"d:4"]
    ottla("produce", "orders", "-K", ":", "-Z", "-H", "h=1", stdin=b"".join(line + b"\n" for line in lines))
    assert [(each.key, each.value) for each in stored(peer)] == [
        *((b"a", b"1"), (b"b", b"2"), (None, b"3"), (b"c", None), (b"d", b"4"))
    ]
    assert {each.headers for each in stored(peer)} == {(("h", b"1"),)}


@pytest.mark.parametrize(
    ("args", "stdin"),
    [
        (("-f", "%k=%v;"), b"a=1;b=2;"),
        (("-f", "%v %k\\n"), b"1 a\n2 b\n"),
        (("-f", "%v %k\\n"), b"1 a\n2 b"),
        (("-f", "%K:%k%R%v"), b"1:a\0\0\0\x011" + b"1:b\0\0\0\x012"),
        (("-K", "\\t", "-D", "\\0"), b"a\t1\0b\t2"),
    ],
)
def test_templates_and_delimiters_are_read(ottla, peer, args, stdin):
    peer.add_topic("orders")
    done = ottla("produce", "orders", *args, stdin=stdin)
    assert (done.code, done.err) == (0, "Wrote 2 records to orders\n")
    assert [(each.key, each.value) for each in stored(peer)] == [(b"a", b"1"), (b"b", b"2")]


def test_files_are_read_instead_of_standard_input(ottla, peer, tmp_path):
    peer.add_topic("orders")
    (tmp_path / "lines").write_text("a:1\nb:2\n")
    ottla("produce", "orders", "--file", str(tmp_path / "lines"), "-K", ":")
    ottla("produce", "orders", "--file", str(tmp_path / "lines"), "--whole-files")
    (tmp_path / "table").write_text("id,name\n7,ann\n")
    ottla("produce", "orders", "--file", str(tmp_path / "table"), "-f", "csv", "--key-field", "id")
    assert [(each.key, each.value) for each in stored(peer)] == [
        *((b"a", b"1"), (b"b", b"2"), (None, b"a:1\nb:2\n")),
        (b"7", b'{"id": "7", "name": "ann"}'),
    ]


def test_input_that_a_template_does_not_fit_is_named(ottla, peer):
    peer.add_topic("orders")
    failed = ottla("produce", "orders", "-f", "%p,%v\\n", stdin=b"0,a\nx,b\n")
    assert failed.code == 1
    assert "error: line 2: b'x' is not a number" in failed.err


def test_one_key_for_all_lines(ottla, peer):
    peer.add_topic("orders", 3)
    ottla("produce", "orders", "-k", "alice", stdin=b"a\nb\nc\n")
    assert [(each.key, each.value) for each in stored(peer)] == [(b"alice", v) for v in (b"a", b"b", b"c")]


def test_headers_partition_acks_and_codec_are_passed_on(ottla, peer):
    topic = peer.add_topic("orders", 3)
    done = ottla("produce", "orders", "x", "-p", "2", "-H", "a=1=2", "-H", "b", "--acks", "1", "-z", "zstd")
    assert done.code == 0
    (record,) = topic.partitions[2].records()
    assert record.headers == (("a", b"1=2"), ("b", None))
    assert decode_header(topic.partitions[2].batches[0]).codec == 4
    assert peer.sent(ApiKey.PRODUCE)[0].acks == 1


def test_json_lines_keep_key_value_headers_and_timestamp(ottla, peer):
    peer.add_topic("orders", 2)
    line = {"key": {"base64": "/w=="}, "value": None, "headers": [["h", "1"]], "timestamp": 7, "partition": 1}
    ottla("produce", "orders", "--format", "json", stdin=json.dumps(line).encode() + b"\n\n")
    (record,) = stored(peer)
    assert (record.key, record.value, record.headers, record.timestamp) == (b"\xff", None, (("h", b"1"),), 7)


def test_json_lines_go_to_their_old_partitions_only_if_reported_to(ottla, peer):
    topic = peer.add_topic("orders", 4)
    lines = b"".join(b'{"value": "x", "key": "same", "partition": %d}\n' % n for n in range(4))
    ottla("produce", "orders", "-f", "json", stdin=lines)
    assert sorted(len(each.records()) for each in topic.partitions) == [0, 0, 0, 4]
    ottla("produce", "orders", "-f", "json", "--keep-partitions", stdin=lines)
    assert sorted(len(each.records()) for each in topic.partitions) == [1, 1, 1, 5]


def test_a_bad_line_is_named_and_the_lines_before_it_are_kept(ottla, peer):
    peer.add_topic("orders")
    failed = ottla("produce", "orders", "-K", ":", stdin=b"a:1\nb:2\nc\nd:4\n")
    assert failed.code == 1
    assert failed.err == (
        "Wrote 2 records to orders\n"
        "error: line 3: no ':' between key and value\n"
        "  the lines before it were sent\n"
        "  more:  ottla explain OTTLA-E208\n"
    )
    assert [each.value for each in stored(peer)] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("-k", "a", "-K", ":"), "--key and --key-separator exclude each other"),
        (("-K", ":", "-f", "json"), "--key-separator must not be empty, and needs lines rather than json"),
        (("-K", ""), "--key-separator must not be empty"),
        (("--keep-partitions",), "--keep-partitions needs --format json"),
        (("-f", "yaml"), "--format is lines, json, csv, avro or a template"),
        (("-f", "%k %v"), "nothing says where %v ends"),
        (("-f", "%p\\n"), "has neither a key (%k) nor a value (%v)"),
        (("-f", "%v{hex}\\n"), "%v{hex} is for writing"),
        (("-f", "%v\\n", "-D", ";"), "--delimiter and a template exclude each other"),
        (("-D", ""), "--delimiter must not be empty"),
        (("-D", "\\q"), "\\q is not known"),
        (("--whole-files",), "--whole-files needs --file"),
        (("-H", "=x"), "'=x' is not name=value"),
        (("--acks", "2"), "'2' is not one of"),
    ],
)
def test_options_that_contradict_are_wrong_usage(ottla, peer, args, reason):
    failed = ottla("produce", "orders", "x", *args)
    assert failed.code == 2
    assert reason in failed.err


def test_a_topic_that_the_broker_creates_is_mentioned(ottla, peer):
    peer.auto_create = True
    done = ottla("produce", "ordres", "x")
    assert done.code == 0
    assert done.err.startswith("ordres is a new topic: the broker created it with 1 partition\n")


def test_a_topic_that_is_not_there_comes_with_near_names(ottla, peer):
    peer.add_topic("orders")
    failed = ottla("produce", "ordres", "x")
    assert failed.code == 1
    assert "there is no topic 'ordres'\n  did you mean: orders?\n" in failed.err


def test_a_partition_that_is_not_there_is_explained(ottla, peer):
    peer.add_topic("orders", 2)
    failed = ottla("produce", "orders", "x", "-p", "5")
    assert failed.code == 1
    assert "error: orders has no partition 5: it has 2, numbered from 0\n" in failed.err


def test_a_record_that_is_too_large_says_how_to_allow_it(ottla, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.message_too_large)
    failed = ottla("produce", "orders", "x")
    assert failed.code == 1
    assert failed.err == (
        "Wrote 0 records to orders\n"
        "error: orders-0: a batch is larger than max.message.bytes\n"
        "  allow larger ones: ottla topic alter orders --set max.message.bytes=N\n"
        "  more:  ottla explain OTTLA-E205\n"
    )


def test_interrupting_keeps_what_was_read_and_says_how_to_continue(ottla, peer, monkeypatch):
    peer.add_topic("orders")

    async def two_lines_and_then_the_user_is_tired(_descriptor, cut):
        yield [b"one", b"two"]
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

    monkeypatch.setattr("ottla.cli.produce.command.read_lines", two_lines_and_then_the_user_is_tired)
    done = ottla("produce", "orders", "-b", "fake:9092")
    assert done.code == 130
    assert done.err.splitlines() == [
        "Wrote 2 records to orders",
        "interrupted; to resume:  tail -n +3 FILE | ottla produce orders -b fake:9092",
    ]
    assert sorted(each.value for each in stored(peer)) == [b"one", b"two"]


async def test_a_producer_that_gets_nowhere_says_why(monkeypatch):
    heard: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr(produce_command, "REASON_INTERVAL_S", 0.0)
    monkeypatch.setattr(produce_command, "echo_err", heard.put_nowait)
    stats = SenderStats()
    waiting = asyncio.ensure_future(produce_command._print_retry_reason(stats))
    await asyncio.sleep(0)
    stats.last_error = KafkaStorageError("No space left on device")
    async with asyncio.timeout(5):
        said = await heard.get()
    waiting.cancel()
    assert said.strip() == "retrying: No space left on device"
