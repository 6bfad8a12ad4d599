from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark.pipelines.copying import Copy, check_copy, declare_copy, parse_endpoint
from ottla.spark.pipelines.files import partition_by_time
from ottla.spark.pipelines.postgres.read import jdbc_options, split_range
from ottla.spark.pipelines.postgres.write import (
    ENVIRONMENT,
    Target,
    delete_statement,
    full_dsn,
    upsert_statement,
)
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.scaffold import files_of, scaffold
from ottla.spark.pipelines.testing.cases import Sample, compare, decoded, find_cases, read_samples


def test_a_line_is_a_value_or_says_more_about_the_record():
    text = '{"item": "tea"}\n\nnot json\n'
    text += '{"value": 5, "key": "k", "headers": {"h": "v"}}\n{"value": null, "key": "k"}'
    plain, raw, full, deleted = read_samples(text, "f")
    assert (plain.value_bytes(), plain.key_bytes()) == (b'{"item": "tea"}', None)
    assert raw.value_bytes() == b"not json"
    assert (full.value, full.key, full.headers) == (5, "k", {"h": "v"})
    assert (deleted.value_bytes(), deleted.key_bytes()) == (None, b"k")


def test_results_are_compared_in_any_order_and_only_as_far_as_the_lines_say():
    expected = read_samples('{"a": 1}\n{"value": {"a": 2}, "key": "k"}', "f")
    actual = [Sample({"a": 2}, "k", {"h": "v"}, 7), Sample({"a": 1}, "x")]
    assert compare(expected, actual) == []
    wrong = [Sample({"a": 2}, "other"), Sample({"a": 1})]
    assert compare(expected, wrong) == [
        '- {"key": "k", "value": {"a": 2}}',
        '+ {"key": "other", "value": {"a": 2}}',
    ]
    assert compare([], [Sample(n) for n in range(12)])[-1] == "... and 2 more"
    assert compare([Sample(1), Sample(1)], [Sample(1)]) == ["- 1"]


def test_what_comes_out_is_json_if_it_can_be():
    assert [decoded(data) for data in (b'{"a": 1}', b"text", None, b"\xff")] == [
        {"a": 1},
        "text",
        None,
        "\\xff",
    ]


def test_the_example_is_a_new_project_as_it_is_written():
    example = Path(__file__).parents[3] / "examples/pipelines/orders"
    assert {name: (example / name).read_text() for name in files_of("orders")} == files_of("orders")


def test_a_new_project_has_a_test_and_is_not_written_over(tmp_path):
    scaffold(tmp_path / "shop")
    [case] = find_cases(tmp_path / "shop")
    assert case.name == "minutes"
    assert set(case.expected) == {"revenue", "large-orders"}
    with pytest.raises(PipelineProblem, match="not empty"):
        scaffold(tmp_path / "shop")
    with pytest.raises(PipelineProblem, match="there are no tests"):
        find_cases(tmp_path)


@pytest.mark.parametrize("text", ["orders", "topics:orders", "parquet:", "s3:x"])
def test_what_is_no_place_to_copy_is_refused(text):
    with pytest.raises(PipelineProblem, match="not a source or target"):
        parse_endpoint(text)


def test_a_copy_has_a_name_of_its_own_that_stays():
    one = Copy(parse_endpoint("topic:orders"), parse_endpoint("parquet:/data/a"))
    other = Copy(parse_endpoint("topic:orders"), parse_endpoint("parquet:/data/b/a"))
    assert one.name.startswith("copy-orders-a-")
    assert one.name != other.name
    assert one.name == Copy(one.source, one.target, key="k").name


@pytest.mark.parametrize(
    ("source", "target", "options", "words"),
    [
        ("topic:a", "postgres:t", {}, "needs columns"),
        ("topic:a", "topic:b", {"partition_by": "day"}, "for files"),
        ("topic:a", "csv:b", {"key": "x"}, "--key"),
        ("postgres:a", "csv:b", {"schema": "x INT"}, "tables have their columns"),
    ],
)
def test_options_of_a_copy_that_do_not_fit_are_refused(source, target, options, words):
    with pytest.raises(PipelineProblem, match=words):
        check_copy(Copy(parse_endpoint(source), parse_endpoint(target), **options))


def test_a_copy_is_a_pipeline_of_one_flow():
    copy = Copy(parse_endpoint("topic:a"), parse_endpoint("parquet:/b"), partition_by="day")
    registry = declare_copy(copy, None)
    registry.check()
    assert registry.datasets["target"].options == {"path": "/b", "partition_by": "day"}


def test_rows_are_upserted_by_key_the_last_of_each_wins():
    target = Target("public.stock", key=("item",), sequence_by="at")
    assert upsert_statement(target, ["item", "pieces"]) == (
        'INSERT INTO "public"."stock" ("item", "pieces") SELECT "item", "pieces" FROM '
        '(SELECT DISTINCT ON ("item") * FROM ottla_incoming ORDER BY "item", "at" DESC NULLS LAST, '
        'ottla_order DESC) AS last ON CONFLICT ("item") DO UPDATE SET "pieces" = excluded."pieces"'
    )
    assert upsert_statement(Target("t", key=("a",)), ["a"]).endswith("DO NOTHING")
    assert "ON CONFLICT" not in upsert_statement(Target("t"), ["a"])
    assert 'WHERE t."a" = last."a" AND coalesce(last."gone", false)' in delete_statement(
        Target("t", key=("a",), deleted="gone")
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs the option table"),
        ({"table": "t", "kee": "x"}, "unknown option"),
        ({"table": "t", "deleted": "d"}, "key"),
    ],
)
def test_options_of_postgres_are_checked(options, words):
    with pytest.raises(PipelineProblem, match=words):
        Target.of(options)


def test_ranges_have_no_gaps():
    assert split_range(1, 10, 3) == [(1, 3), (4, 6), (7, 10)]
    assert split_range(5, 5, 4) == [(5, 5)]


def test_a_dsn_becomes_a_url_of_jdbc():
    assert jdbc_options("postgresql://ann:secret@db:5433/shop") == {
        "url": "jdbc:postgresql://db:5433/shop",
        "user": "ann",
        "password": "secret",
    }


def test_a_unit_of_time_that_is_none_is_refused():
    with pytest.raises(PipelineProblem, match="not a unit of time"):
        partition_by_time(None, "at", "fortnight")


def test_variables_of_libpq_are_put_into_the_dsn_where_it_says_nothing(monkeypatch):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PGHOST", "db")
    monkeypatch.setenv("PGUSER", "ann")
    assert full_dsn("") == "host=db user=ann"
    assert full_dsn("postgresql://bob@other/x") == "postgresql://bob@other/x"
