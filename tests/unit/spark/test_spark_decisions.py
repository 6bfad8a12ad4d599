"""What may be done with a batch, by what is decided."""

from __future__ import annotations

import json

import pytest

from ottla.spark.errors import SameSinkTwice, StaleCheckpoint, Superseded
from ottla.spark.sink.decisions import (
    Decision,
    Prepared,
    Register,
    SinkKey,
    check_owner,
    check_plan,
    decode_decision,
    encode_decision,
    is_decided,
    split_prepared,
    to_abort,
)

KEY = SinkKey("query")
ONE, TWO = Prepared("spark/query/0", 7, 1), Prepared("spark/query/1", 8, 3)
DECIDED = Register("run", Decision(5, "run", "writer", (ONE, TWO)))


def test_a_decision_is_loaded_as_it_was_stored() -> None:
    assert DECIDED.decision is not None
    assert decode_decision(encode_decision(DECIDED.decision)) == DECIDED.decision


def test_a_register_is_what_was_last_written_to_each_entry() -> None:
    assert DECIDED.decision is not None
    register = Register().apply("decision", encode_decision(DECIDED.decision))
    register = register.apply("owner", json.dumps({"run": "old"}).encode())
    register = register.apply("owner", json.dumps({"run": "run"}).encode())
    assert register == DECIDED
    assert register.apply("decision", None) == Register("run")


def test_a_batch_is_written_until_it_is_decided() -> None:
    assert not is_decided(Register(), 0, "run", "writer")
    assert not is_decided(DECIDED, 6, "run", "writer")
    assert is_decided(DECIDED, 5, "later run", "another writer")


def test_a_checkpoint_older_than_the_output_is_refused() -> None:
    with pytest.raises(StaleCheckpoint, match="batch 4 is to be written, but batch 5"):
        is_decided(DECIDED, 4, "later run", "writer")


def test_another_batch_with_the_number_of_a_decided_one_is_refused() -> None:
    decided = Decision(5, "run", "writer", (ONE,), "one plan")
    assert decode_decision(encode_decision(decided)) == decided
    check_plan(decided, "one plan")
    check_plan(decided, None)
    assert DECIDED.decision is not None
    check_plan(DECIDED.decision, "one plan")  # written before plans were noted
    with pytest.raises(
        StaleCheckpoint, match="batch 5 of this query was already written, with other records"
    ):
        check_plan(decided, "another plan")


def test_a_second_write_of_the_same_run_and_name_is_refused() -> None:
    with pytest.raises(SameSinkTwice, match="sinkName"):
        is_decided(DECIDED, 5, "run", "another writer")


def test_only_the_run_that_owns_the_sink_decides() -> None:
    check_owner(DECIDED, "run")
    with pytest.raises(Superseded, match="another run of this query"):
        check_owner(DECIDED, "old run")


def test_sinks_of_a_query_have_transactions_of_their_own() -> None:
    other = SinkKey("query", "copies")
    assert (KEY.transactional_id(3), other.transactional_id(3)) == ("spark/query/3", "spark/query/copies/3")
    assert KEY.owns("spark/query/3")
    assert not KEY.owns("spark/query/copies/3")
    assert not KEY.owns("spark/query-2/3")


def test_what_is_left_over_is_aborted_unless_it_is_decided() -> None:
    found = ["spark/query/0", "spark/query/1", "spark/query/2", "spark/query/copies/2", "spark/other/2"]
    assert to_abort(KEY, found, DECIDED.decision) == ["spark/query/2"]
    assert to_abort(KEY, found, None, kept=[ONE]) == ["spark/query/1", "spark/query/2"]


def test_a_batch_that_is_given_up_is_committed_if_it_is_decided_and_aborted_if_not() -> None:
    other = Prepared("spark/query/2", 9, 0)
    assert split_prepared(DECIDED, 5, [ONE, other]) == ([ONE, TWO], [other])
    assert split_prepared(DECIDED, 6, [other]) == ([], [other])
    assert split_prepared(Register("run"), 0, [ONE]) == ([], [ONE])
