from __future__ import annotations

import pytest

from ottla.spark.pipelines.elements import Kind
from ottla.spark.pipelines.problems import PipelineProblem, Place
from ottla.spark.pipelines.registry import Registry
from ottla.spark.pipelines.sql.files import declare_sql
from ottla.spark.pipelines.sql.text import Relation, relations, statements


def declared(text: str) -> Registry:
    registry = Registry()
    declare_sql(
        text,
        "p.sql",
        registry,
        lambda query, place: ("query", query, place),
        lambda format, options, place: ("load", format, options),
    )
    return registry


def test_statements_end_at_semicolons_but_not_in_strings_and_comments():
    text = "SELECT ';' -- a; comment\nFROM a;\n\n/* ; */ SELECT `x;y`;\n"
    assert [(each.text, each.line) for each in statements(text)] == [
        ("SELECT ';' -- a; comment\nFROM a", 1),
        ("SELECT `x;y`", 4),
    ]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT * FROM a", [Relation("a", False)]),
        ("SELECT * FROM STREAM a", [Relation("a", True)]),
        ("SELECT * FROM STREAM(a) WHERE x", [Relation("a", True)]),
        (
            "SELECT * FROM a x, STREAM b AS y, c",
            [Relation("a", False), Relation("b", True), Relation("c", False)],
        ),
        ("SELECT * FROM a JOIN `b c` ON a.x = `b c`.x", [Relation("a", False), Relation("b c", False)]),
        (
            "SELECT * FROM (SELECT * FROM inner_one) LEFT JOIN db.t",
            [Relation("inner_one", False), Relation("db.t", False)],
        ),
        ("WITH w AS (SELECT * FROM a) SELECT * FROM w", [Relation("a", False)]),
        ("SELECT 'FROM x' FROM range(10)", []),
        ("SELECT x FROM `stream`", [Relation("stream", False)]),
    ],
)
def test_the_relations_of_a_query_are_found(query, found):
    assert relations(query) == found


def test_the_statements_of_declarative_pipelines_are_understood():
    registry = declared(
        """
        CREATE TEMPORARY VIEW raw USING ottla OPTIONS (subscribe 'orders', 'maxOffsetsPerTrigger' = 100);
        CREATE STREAMING TABLE big USING ottla TBLPROPERTIES ('topic' = 'big-orders')
          COMMENT 'large ones' AS SELECT * FROM STREAM raw WHERE price > 100;
        CREATE OR REFRESH MATERIALIZED VIEW IF NOT EXISTS totals PARTITIONED BY (day) AS
          SELECT day, count(*) FROM big GROUP BY day;
        CREATE STREAMING TABLE collected;
        CREATE FLOW fill AS INSERT INTO collected BY NAME SELECT * FROM STREAM big;
        """
    )
    registry.check()
    kinds = {name: each.kind for name, each in registry.datasets.items()}
    assert kinds == {
        "raw": Kind.TEMPORARY_VIEW,
        "big": Kind.STREAMING_TABLE,
        "totals": Kind.MATERIALIZED_VIEW,
        "collected": Kind.STREAMING_TABLE,
    }
    assert registry.datasets["big"].topic == "big-orders"
    assert registry.datasets["totals"].partition_cols == ("day",)
    assert registry.flows["raw"].function() == (
        "load",
        "ottla",
        {"subscribe": "orders", "maxOffsetsPerTrigger": "100"},
    )
    assert registry.flows["fill"].target == "collected"
    _, query, place = registry.flows["big"].function()
    assert query == "SELECT * FROM STREAM raw WHERE price > 100"
    assert place == Place("p.sql", 4)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\nSELECT 1", 2, "CREATE is expected"),
        ("CREATE TABLE x AS SELECT 1", 1, "a pipeline's SQL file may contain"),
        ("CREATE MATERIALIZED VIEW v", 1, "AS and a query"),
        ("CREATE STREAMING TABLE t\n  WITH x AS SELECT 1", 2, "unexpected 'WITH'"),
        ("CREATE FLOW f AS\n SELECT 1", 2, "INSERT is expected"),
        ("CREATE STREAMING TABLE t OPTIONS (a 'b'", 1, "unexpected end of the statement"),
    ],
)
def test_other_statements_are_refused_by_line(text, line, words):
    with pytest.raises(PipelineProblem, match=words) as caught:
        declared(text)
    assert caught.value.place == Place("p.sql", line)
