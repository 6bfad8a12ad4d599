import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.cli.support.records import from_json, template, to_json
from ottla.client.consumer import ConsumerRecord

RECORD = ConsumerRecord("orders", 3, 42, 1700000000000, 0, b"k", b"v\xff", (("a", b"1"), ("b", None)))
NULLS = ConsumerRecord("t", 0, 0, -1, 0, None, None, ())

maybe_bytes = st.none() | st.binary(max_size=20)
records = st.builds(
    ConsumerRecord,
    topic=st.text("abc", min_size=1, max_size=5),
    partition=st.integers(0, 100),
    offset=st.integers(0, 2**63 - 1),
    timestamp=st.integers(0, 2**62),
    timestamp_type=st.just(0),
    key=maybe_bytes,
    value=maybe_bytes,
    headers=st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple),
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (r"%v\n", b"v\xff\n"),
        (r"%t/%p@%o %T %k=%s", b"orders/3@42 1700000000000 k=v\xff"),
        (r"%h", b"a=1,b="),
        (r"%K %V %S", b"1 2 2"),
        (r"100%% \t\\\x41\0", b"100% \t\\A\0"),
        ("é", "é".encode()),
        ("", b""),
    ],
)
def test_a_template_is_filled_in(text, written):
    assert template(text)(RECORD) == written


def test_nulls_are_empty_and_have_the_size_minus_one():
    assert template("[%k|%v|%h|%K|%V]")(NULLS) == b"[|||-1|-1]"
    assert template("%o %k=%v")(NULLS) == b"0 ="


@pytest.mark.parametrize(
    ("text", "wrong"), [("%z", "%z"), ("50%", "%"), (r"\q", r"\q"), ("\\", "\\"), (r"\x4", r"\x")]
)
def test_a_template_with_a_mistake_names_it(text, wrong):
    with pytest.raises(ValueError, match="is not known") as caught:
        template(text)
    assert str(caught.value).startswith(wrong)


def test_bytes_that_are_no_text_are_base64():
    fields = json.loads(to_json(RECORD))
    assert fields["key"] == "k"
    assert fields["value"] == {"base64": "dv8="}
    assert fields["headers"] == [["a", "1"], ["b", None]]


@given(records)
@settings(max_examples=150)
def test_what_consume_writes_as_json_produce_reads_back(record):
    line = to_json(record)
    assert line.count(b"\n") == 1
    assert from_json(line) == (record.key, record.value, record.headers, record.timestamp, record.partition)


def test_what_is_left_out_is_null():
    assert from_json(b'{"value": "v"}') == (None, b"v", (), None, None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"value": 5}', '"value" must be text, null or'),
        (b'{"key": {"a": 1}}', '"key" must be text, null or'),
        (b'{"value": {"base64": "*"}}', '"value" cannot be turned into bytes'),
        (b'{"value": {"base64": 5}}', '"value" cannot be turned into bytes'),
        (b'{"value": "\\ud800"}', '"value" cannot be turned into bytes'),
        (b'{"headers": {"a": "b"}}', '"headers" must be a list'),
        (b'{"headers": [["a"]]}', '"headers" must be a list'),
        (b'{"timestamp": "now"}', '"timestamp" must be a whole number'),
        (b'{"partition": -1}', '"partition" must be a whole number'),
        (b'{"partition": true}', '"partition" must be a whole number'),
    ],
)
def test_json_with_a_mistake_names_the_field(line, reason):
    with pytest.raises(ValueError) as caught:
        from_json(line)
    assert reason in str(caught.value)
