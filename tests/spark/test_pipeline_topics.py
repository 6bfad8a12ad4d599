from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from tests.spark.pipeline_runs import Pipeline
from tests.spark.topics import Topics

from ottla.common.clock import SystemClock
from ottla.spark.pipelines.copying import Copy, declare_copy, parse_endpoint
from ottla.spark.pipelines.loading import load_project
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.run.driver import Job, project_without_files, run
from ottla.spark.pipelines.run.runner import RunOptions
from ottla.spark.pipelines.run.storage import open_storage
from ottla.spark.pipelines.scaffold import files_of
from ottla.spark.pipelines.testing.cases import find_cases
from ottla.spark.pipelines.testing.runs import received, run_case
from ottla.testing.broker_process import BrokerProcess

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"


@pytest.fixture
def pipeline(spark, tmp_path):
    """A pipeline with a broker of its own: examples have fixed names of topics."""
    with BrokerProcess(tmp_path / "broker") as broker:
        yield Pipeline(spark, tmp_path, broker.address)


@pytest.fixture
def own(pipeline):
    with Topics(pipeline.bootstrap) as topics:
        yield topics


def send(own, topic, *records):
    """Send values, or pairs of key and value."""
    for record in records:
        key, value = record if isinstance(record, tuple) else (None, record)
        raw = json.dumps(value) if isinstance(value, dict) else value
        own.producer.send(topic, raw.encode() if raw is not None else None, key=key.encode() if key else None)
    own.producer.flush()


def values(own, topic):
    return [json.loads(record.value) for record in own.records(topic)]


ORDERS = [
    {"item": "tea", "quantity": 2, "price": 4.5, "at": "2026-01-01T23:59:59Z"},
    {"item": "cup", "quantity": 1, "price": 9.0, "at": "2026-01-02T00:00:00Z"},
    {"item": "tea", "quantity": 1, "price": 4.5, "at": "2026-01-02T12:00:00Z"},
]


def test_the_orders_example_is_what_init_makes():
    made = files_of("orders")
    assert {name: (EXAMPLES / "orders" / name).read_text() for name in made} == made


def test_the_orders_example_passes_its_own_test_and_agrees_with_plain_python(pipeline):
    job = pipeline.job(EXAMPLES / "orders")
    registry = load_project(job.project, pipeline.spark)
    [case] = find_cases(EXAMPLES / "orders")
    assert run_case(case, job, pipeline.spark, registry, SystemClock()) == []
    revenue: dict[tuple[str, str], float] = defaultdict(float)
    for order in (sample.value for sample in case.inputs["shop-orders"]):
        revenue[order["at"][:16], order["item"]] += order["quantity"] * order["price"]
    latest = max(revenue)[0]  # its window is still open
    rows = [sample.value for sample in received(pipeline.bootstrap, "revenue")]
    found = {(row["start"][:16], row["item"]): row["revenue"] for row in rows}
    assert found == {key: value for key, value in revenue.items() if key[0] != latest}


def test_a_case_that_fails_says_what_is_missing_and_what_is_too_much(pipeline):
    for name, text in files_of("pipeline").items():
        pipeline.write(name, text.replace('"pieces": 12', '"pieces": 13'))
    job = pipeline.job()
    [case] = find_cases(pipeline.folder)
    differences = run_case(
        case, job, pipeline.spark, load_project(job.project, pipeline.spark), SystemClock()
    )
    assert [(each.name, [line[:1] for line in each.lines]) for each in differences] == [
        ("revenue", ["-", "+"])
    ]


def test_topics_go_to_parquet_by_day_and_back_each_row_once(pipeline, own, tmp_path, monkeypatch):
    monkeypatch.setenv("ORDERS_FOLDER", str(tmp_path / "orders"))
    send(own, "orders", *ORDERS[:2])
    pipeline.run(EXAMPLES / "to_parquet.py")
    send(own, "orders", ORDERS[2])
    pipeline.run(EXAMPLES / "to_parquet.py")
    days = sorted(folder.name for folder in (tmp_path / "orders").glob("day=*"))
    assert days == ["day=2026-01-01", "day=2026-01-02"]
    for _ in range(2):
        pipeline.run(EXAMPLES / "from_parquet.py")
    restored = sorted(values(own, "restored-orders"), key=lambda row: row["at"])
    assert [(row["item"], row["quantity"]) for row in restored] == [("tea", 2), ("cup", 1), ("tea", 1)]
    assert {record.key for record in own.records("restored-orders")} == {b"tea", b"cup"}
    assert own.open_transactions() == []


def test_dead_letters_carry_the_reason_and_the_place_and_nothing_is_lost(pipeline, own):
    good = [{"item": f"i{n}", "quantity": n, "price": 1.5} for n in range(20)]
    bad = ["not json", '{"item": "x", "quantity": "many", "price": 1}', '{"item": "x"', "[1]"]
    send(own, "orders", *good[:10], *[("k", text) for text in bad], *good[10:])
    for _ in range(2):
        state = pipeline.run(EXAMPLES / "dead_letters.py")
    assert state.dead_letters == ["dead-orders"]  # for `ottla pipeline dlq`
    assert sorted(values(own, "good-orders"), key=lambda row: row["quantity"]) == good
    dead = own.records("dead-orders")
    assert sorted(record.value.decode() for record in dead) == sorted(bad)
    for record in dead:
        headers = dict(record.headers)
        assert b"the value is not JSON of" in headers["ottla.error"]
        assert headers["ottla.source.topic"] == b"orders"
        assert headers["ottla.source.partition"] == b"0"
        assert bad[int(headers["ottla.source.offset"]) - 10] == record.value.decode()
        assert record.key == b"k"


def test_a_changelog_is_read_as_a_table_and_written_with_null_on_delete(pipeline, own):
    changes = [
        ("a", {"name": "Ann", "orders": 12}),
        ("b", {"name": "Bob", "orders": 3}),
        ("a", {"name": "Ann", "orders": 13}),
        ("c", {"name": "Cleo", "orders": 40}),
        ("c", None),
    ]
    send(own, "customers", *changes)
    pipeline.run(EXAMPLES / "changelog.py")
    storage = pipeline.job(EXAMPLES / "changelog.py").storage
    rows = pipeline.spark.read.parquet(str(storage.current_view("customers"))).collect()
    assert {row["id"]: row["orders"] for row in rows} == {"a": 13, "b": 3}
    latest = {record.key.decode(): record.value for record in own.records("vip")}
    assert latest["b"] is None
    assert latest["c"] is None
    assert json.loads(latest["a"]) == {"id": "a", "name": "Ann", "orders": 13}


def test_bad_json_makes_a_strict_flow_fail_with_a_hint_and_its_line(pipeline, own):
    send(own, "orders", "not json")
    with pytest.raises(PipelineProblem) as caught:
        pipeline.run(EXAMPLES / "to_parquet.py")
    assert "the value of orders-0 at offset 0 is not JSON of " in caught.value.what
    assert caught.value.what.endswith(": not json")
    assert any("dp.parse_json" in hint for hint in caught.value.hints)
    assert caught.value.place is not None
    assert Path(caught.value.place.file).name == "to_parquet.py"


def test_an_update_query_writes_each_change_to_its_topic(pipeline, own):
    pipeline.write(
        "counts.py",
        """
        from ottla.spark import pipelines as dp

        @dp.table(format="ottla", options={"topic": "counts", "key": "item"}, output_mode="update")
        def counts():
            return dp.read_topic("orders", schema="item STRING").groupBy("item").count()

        @dp.table
        def read_back():
            return spark.readStream.table("counts")
        """,
    )
    send(own, "orders", {"item": "tea"}, {"item": "tea"}, {"item": "cup"})
    pipeline.run()
    send(own, "orders", {"item": "tea"})
    pipeline.run()
    found = sorted((row["item"], row["count"]) for row in values(own, "counts"))
    assert found == [("cup", 1), ("tea", 2), ("tea", 3)]
    rows = [(row["item"], row["count"]) for row in pipeline.rows("tables", "read_back", "read_back")]
    assert sorted(rows) == found


def copy(pipeline, source, target, **options):
    wanted = Copy(parse_endpoint(source), parse_endpoint(target), **options)
    job = Job(
        project_without_files(wanted.name, pipeline.folder),
        open_storage(pipeline.root, wanted.name, pipeline.folder),
        bootstrap=pipeline.bootstrap,
        options=RunOptions(available_now=True, retries=0),
    )
    from threading import Event

    run(
        job,
        lambda _: pipeline.spark,
        pipeline.watcher,
        SystemClock(),
        Event(),
        lambda spark: declare_copy(wanted, spark),
    )


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_copies_between_topics_and_files_take_each_row_once(pipeline, own, tmp_path, kind):
    schema = "item STRING, quantity INT, price DOUBLE, at TIMESTAMP"
    place = f"{kind}:{tmp_path / kind}"
    send(own, "in", *ORDERS)
    for _ in range(2):
        copy(pipeline, "topic:in", place, schema=schema, partition_by="day", event_time="at")
    for _ in range(2):
        copy(pipeline, place, "topic:out", schema=f"{schema}, day STRING", key="item")
    found = sorted((row["item"], row["quantity"], row["day"]) for row in values(own, "out"))
    expected = sorted((row["item"], row["quantity"], row["at"][:10]) for row in ORDERS)
    assert found == expected


def test_a_copy_of_raw_records_keeps_keys_and_headers(pipeline, own):
    own.producer.send("in", b"\xff\x00", key=b"k", headers=[("h", b"v")])
    own.producer.flush()
    copy(pipeline, "topic:in", "topic:out")
    [record] = own.records("out")
    assert (record.key, record.value, record.headers) == (b"k", b"\xff\x00", (("h", b"v"),))
