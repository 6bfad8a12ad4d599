"""What `upsert` refuses before a query starts, and the topics of dead letters that flows declare."""

from __future__ import annotations

import pytest

from ottla.spark.changelogs import Upserts, names_of
from ottla.spark.errors import WrongOption
from ottla.spark.pipelines.elements import Dataset, Flow, Kind
from ottla.spark.pipelines.problems import PipelineProblem, Place
from ottla.spark.pipelines.registry import Registry

HERE = Place("shop.py", 1)


@pytest.mark.parametrize("given", ["a, b", ["a", "b"], ("a", " b "), "a,b,"])
def test_key_columns_are_a_text_or_a_list(given: str | list[str]) -> None:
    assert names_of(given) == ("a", "b")


@pytest.mark.parametrize(
    ("upserts", "option"),
    [
        (Upserts(()), "key"),
        (Upserts(("c",)), "key"),
        (Upserts(("a",), value="c"), "value"),
        (Upserts(("a",), sequence_by="c"), "sequence_by"),
    ],
)
def test_columns_that_the_rows_do_not_have_are_refused(upserts: Upserts, option: str) -> None:
    with pytest.raises(WrongOption) as error:
        upserts.check(["a", "b"])
    assert error.value.option == option


def test_a_topic_has_no_mode_but_upsert() -> None:
    registry = Registry()
    registry.add_dataset(Dataset("t", Kind.STREAMING_TABLE, HERE, "ottla", {"mode": "overwrite"}))
    registry.add_flow(Flow("t", "t", lambda: None, HERE))
    with pytest.raises(PipelineProblem, match="'overwrite' is not a mode of a topic"):
        registry.check()
    upserted = Dataset("t", Kind.STREAMING_TABLE, HERE, "ottla", {"mode": "Upsert"})
    assert upserted.is_upsert
    assert not Dataset("t", Kind.STREAMING_TABLE, HERE, "parquet", {"mode": "upsert"}).is_upsert
