"""The laws that verdicts keep, whatever the schemas: on generated pairs of all three formats."""

from __future__ import annotations

import pytest
from benchmarks.registry.compatibility import broken_laws, difference, pair_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.registry.formats import InvalidSchema, check, parse


@pytest.mark.parametrize("schema_type", ["AVRO", "JSON", "PROTOBUF"])
@given(number=st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_levels_keep_their_laws(schema_type: str, number: int) -> None:
    try:
        old, new = (parse(schema_type, text) for text in pair_of(schema_type, 0, number))
    except InvalidSchema:
        return
    assert broken_laws(old, new) == []
    assert parse(schema_type, new.canonical).canonical == new.canonical


def test_pairs_are_compatible_about_as_often_as_not() -> None:
    """A generator that only makes one kind of pair would prove nothing."""
    for schema_type in ("AVRO", "JSON", "PROTOBUF"):
        verdicts = []
        for number in range(60):
            try:
                old, new = (parse(schema_type, text) for text in pair_of(schema_type, 1, number))
            except InvalidSchema:
                continue
            verdicts.append(not check("BACKWARD", new, [old]))
        assert 10 < sum(verdicts) < len(verdicts) - 5


def test_a_peers_answers_are_compared() -> None:
    old, new = parse("AVRO", '"int"'), parse("AVRO", '"long"')
    verdicts = {level: check(level, new, [old]) for level in ("BACKWARD", "FORWARD", "FULL")}
    assert difference({"verdicts": verdicts, "canonical": '"long"'}, old, new) == ""
    assert difference({"verdicts": verdicts, "canonical": '"int"'}, old, new) == "canonical text"
    assert difference({"verdicts": {**verdicts, "FORWARD": ["other"]}}, old, new) == "messages"
    assert difference({"verdicts": {**verdicts, "FORWARD": []}}, old, new) == "verdict"
    assert difference({"error": "no"}, old, new) == "only the peer refuses a schema"
    assert difference({"verdicts": verdicts}, None, new) == "only we refuse a schema"
