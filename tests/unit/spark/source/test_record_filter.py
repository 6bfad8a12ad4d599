"""The option `where`: what it accepts, and that narrowing ranges never loses a matching record."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.spark.errors import WrongOption
from ottla.spark.source.planning import OffsetRange
from ottla.spark.source.record_filter import parse_where

END = 12
NUMBERS = st.integers(-3, END + 3)
CONDITIONS = st.one_of(
    st.tuples(
        st.sampled_from(["partition", "offset", "timestamp"]),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        NUMBERS,
    ).map(lambda parts: " ".join(map(str, parts))),
    st.tuples(
        st.sampled_from(["partition", "offset"]),
        st.sampled_from(["IN", "not in"]),
        st.lists(NUMBERS, min_size=1, max_size=3),
    ).map(lambda parts: f"{parts[0]} {parts[1]} ({', '.join(map(str, parts[2]))})"),
    st.tuples(NUMBERS, NUMBERS).map(lambda ends: f"offset BETWEEN {ends[0]} AND {ends[1]}"),
    st.lists(st.sampled_from(["t", "u"]), min_size=1).map(
        lambda names: "topic IN (" + ",".join(f"'{name}'" for name in names) + ")"
    ),
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine, at the first draw
@given(st.lists(CONDITIONS, min_size=1, max_size=4), st.integers(0, END), st.booleans())
def test_narrowed_ranges_and_mask_keep_exactly_the_matching_records(
    conditions: list[str], start: int, is_live: bool
) -> None:
    text = " AND ".join(conditions)
    found = parse_where(text)
    python = text.replace("!=", "<>").replace("<=", "≤").replace(">=", "≥").replace("=", "==")
    python = python.replace("≤", "<=").replace("≥", ">=").replace("<>", "!=").replace(" IN ", " in ")
    python = python.replace(" in (", " in (None, ").replace(" AND ", " and ")
    for number in range(-3, END + 4):
        python = python.replace(f"offset BETWEEN {number} and ", f"{number} <= offset and offset <= ")
    ranges = [OffsetRange(topic, None, part, start, END, is_live) for topic in "tu" for part in range(3)]
    kept = set()
    for each in found.narrow(ranges):
        assert each.start >= start
        offsets = np.arange(each.start, END if each.is_live else each.end)
        times_ms = (offsets * 7) % END  # in no order
        mask = found.mask(offsets, times_ms)
        kept |= {
            (each.topic, each.partition, int(offset)) for offset in offsets[mask if mask is not None else ...]
        }
    assert kept == {
        (topic, partition, offset)
        for topic in "tu"
        for partition in range(3)
        for offset in range(start, END)
        if eval(
            python, {"topic": topic, "partition": partition, "offset": offset, "timestamp": offset * 7 % END}
        )
    }


def test_times_are_milliseconds_or_texts_with_a_zone() -> None:
    assert parse_where("timestamp > 41").since_ms == 42
    assert parse_where("timestamp >= '1970-01-01T00:00:02.5Z' and timestamp < 9000").since_ms == 2_500
    assert parse_where("timestamp >= TIMESTAMP '1970-01-01 01:00:03+01:00'").since_ms == 3_000
    assert parse_where("timestamp < 5").since_ms is None
    assert parse_where(None).conditions == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("value = 'x'", "'value' is not topic, partition, offset or timestamp"),
        ("offset > 1 OR offset < 5", "has 'OR' where AND must be"),
        ("offset > 1 AND", "ends too early"),
        ("offset > 'one'", "compares offset with 'one', which is not a whole number"),
        ("offset > 99999999999999999999", "which is not a whole number"),
        ("topic > 'a'", "cannot compare topic with >"),
        ("topic = 5", "which is not a text in '"),
        ("partition IN 1", r"has '1' where \( must be"),
        ("partition IN (1; 2)", r"has ';' where \) must be"),
        ("timestamp > '2026-01-01T10:00'", "names no time zone"),
        ("timestamp > 'yesterday'", "'yesterday' is not a time"),
        ("timestamp > '2026-01-01T10:00:00.000001Z'", "finer than a millisecond"),
        ("offset LIKE 5", "cannot compare offset with LIKE"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(text: str, complaint: str) -> None:
    with pytest.raises(WrongOption, match=f"where: .*{complaint}"):
        parse_where(text)
