"""What a template writes, it reads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.cli.support.input_template import InputTemplate
from ottla.cli.support.records import template
from ottla.client.consumer import ConsumerRecord

HEADERS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([b"", b"1"])), max_size=2)


@given(st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary(), HEADERS), max_size=5))
@settings(max_examples=200, deadline=None)
def test_with_sizes_every_record_comes_back(rows):
    text = r"%p %T %h|%K,%k%R%v"
    write, read = template(text), InputTemplate(text)
    records = [
        ConsumerRecord("t", 3, 7, 1_700_000_000_000, 0, key, value, tuple(headers))
        for key, value, headers in rows
    ]
    data = b"".join(map(write, records))
    pieces, end = read.cut(data)
    assert end == len(data)
    found = [read.record(each) for each in pieces]
    assert found == [(each.key, each.value, each.headers, 1_700_000_000_000, 3) for each in records]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_record_may_come_in_pieces(size):
    read, data = InputTemplate(r"%k: %v;"), b"a: 1;bb: 22;"
    rest, found = b"", []
    for at in range(0, len(data), size):
        rest += data[at : at + size]
        some, end = read.cut(rest)
        found += some
        rest = rest[end:]
    assert [read.record(each)[:2] for each in found] == [(b"a", b"1"), (b"bb", b"22")]


def test_lines_and_keys_before_a_separator_are_known_as_such():
    assert InputTemplate(r"%v\n").separators == (None, b"\n")
    assert InputTemplate(r"%k:%v\n").separators == (b":", b"\n")
    assert InputTemplate(r"%v:%k\n").separators is None
