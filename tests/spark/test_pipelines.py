from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import pytest
from click.testing import CliRunner
from tests.spark.pipeline_runs import Pipeline
from tests.waiting import wait_until

from ottla.cli.pipeline.status import restart_command
from ottla.spark.pipelines.explaining import explain_pipeline
from ottla.spark.pipelines.loading import load_project
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.run.driver import resolver_of
from ottla.spark.pipelines.run.state import read_state
from ottla.spark.pipelines.run.writing import FlowWriter

SHOP = {
    "shop.py": """
        from ottla.spark import pipelines as dp
        from helper import doubled
        from pyspark.sql import functions as sf

        @dp.temporary_view
        def incoming():
            return spark.readStream.schema("item STRING, n INT").json("{data}")

        @dp.table
        def orders():
            twice = sf.udf(doubled, "int")
            return spark.readStream.table("incoming").where("n > 0").select("item", twice("n").alias("n"))
        """,
    "totals.sql": """
        CREATE MATERIALIZED VIEW totals AS
          SELECT item, sum(n) AS n FROM orders GROUP BY item;
        CREATE STREAMING TABLE large AS SELECT * FROM STREAM orders WHERE n > 10;
        """,
}


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def put(data: Path, name: str, *rows: dict[str, object]) -> None:
    (data / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def shop(spark, tmp_path, data):
    files = {name: text.format(data=data) for name, text in SHOP.items()}
    pipeline = Pipeline(spark, tmp_path, files=files)
    (pipeline.folder / "helper.py").write_text("DOUBLE = 2\n\ndef doubled(n):\n    return n * DOUBLE\n")
    return pipeline


def test_tables_views_and_sql_files_flow_into_each_other_and_a_second_run_takes_only_what_is_new(shop, data):
    put(data, "1.json", {"item": "tea", "n": 2}, {"item": "cup", "n": 7}, {"item": "bad", "n": -1})
    state = shop.run()
    assert state.state == "done"
    assert sorted(row["item"] for row in shop.rows("tables", "orders", "orders")) == ["cup", "tea"]
    assert shop.rows("tables", "large", "large") == [{"item": "cup", "n": 14}]
    totals = {row["item"]: row["n"] for row in shop.rows("views", "totals")}
    assert totals == {"tea": 4, "cup": 14}

    put(data, "2.json", {"item": "tea", "n": 10})
    state = shop.run()
    assert {row["item"]: row["n"] for row in shop.rows("views", "totals")} == {"tea": 24, "cup": 14}
    assert len(shop.rows("tables", "large", "large")) == 2
    assert {flow["flow"]: flow["rows"] for flow in state.flows if flow["rows"]} == {"orders": 1, "large": 1}

    shop.run(full_refresh=("*",))
    assert len(shop.rows("tables", "orders", "orders")) == 3


def test_explain_shows_the_order_the_names_and_the_plans_and_leaves_nothing(shop):
    job = shop.job()
    explained = explain_pipeline(job, shop.spark, load_project(job.project, shop.spark))
    assert [each.target for each in explained] == ["incoming", "orders", "totals", "large"]
    assert {each.target: each.reads for each in explained} == {
        "incoming": [],
        "orders": ["incoming"],
        "totals": ["orders"],
        "large": ["orders"],
    }
    assert "Filter" in next(each for each in explained if each.target == "orders").plan
    assert (
        explained[1]
        .as_text(with_plan=False)
        .startswith("orders: streaming table in parquet (stream, append)")
    )


BROKEN = {
    "a column that is not there": (
        """
        from ottla.spark import pipelines as dp

        @dp.materialized_view
        def broken():
            return spark.range(3).select(
                "idd")
        """,
        6,
        "`idd` cannot be resolved. Did you mean one of the following? [`id`]",
    ),
    "a table that is not there": (
        """
        from ottla.spark import pipelines as dp

        @dp.materialized_view
        def orders():
            return spark.range(3)

        @dp.materialized_view
        def broken():
            return spark.read.table("ordes")
        """,
        10,
        "unknown table or view 'ordes'",
    ),
    "a function of the user that fails in a worker": (
        """
        from pyspark.sql import functions as F
        from ottla.spark import pipelines as dp

        @F.udf("int")
        def halve(number):
            return 1 // (number - number)

        @dp.materialized_view
        def broken():
            return spark.range(3).select(halve("id"))
        """,
        7,
        "ZeroDivisionError: integer division or modulo by zero",
    ),
    "an aggregation without a watermark": (
        """
        from ottla.spark import pipelines as dp

        @dp.table
        def broken():
            return spark.readStream.format("rate").load().groupBy("value").count()
        """,
        4,
        "Invalid streaming output mode: append",
    ),
    "no DataFrame": (
        """
        from ottla.spark import pipelines as dp

        @dp.table
        def broken():
            spark.range(3)
        """,
        4,
        "broken() returned NoneType, not a DataFrame",
    ),
    "a circle": (
        """
        from ottla.spark import pipelines as dp

        @dp.temporary_view
        def a():
            return spark.read.table("b")

        @dp.materialized_view
        def b():
            return spark.read.table("a")
        """,
        4,
        "'a' reads itself: a <- b <- a",
    ),
    "a slip of the pen": ("def broken(:\n", 1, "invalid syntax"),
    "a batch for a streaming table": (
        """
        from ottla.spark import pipelines as dp

        @dp.table
        def broken():
            return spark.range(3)
        """,
        4,
        "is not a stream",
    ),
}


@pytest.mark.parametrize("mistake", list(BROKEN))
def test_an_error_shows_the_users_line_and_one_sentence(spark, tmp_path, mistake):
    text, line, words = BROKEN[mistake]
    pipeline = Pipeline(spark, tmp_path, files={"broken.py": text})
    with pytest.raises(PipelineProblem) as caught:
        pipeline.run()
    place = caught.value.place
    assert place is not None
    assert (Path(place.file).name, place.line) == ("broken.py", line), str(caught.value)
    assert words in caught.value.what
    assert not any(noise in str(caught.value) for noise in ("py4j", "\tat ", "SQLSTATE", "Traceback"))


def test_an_error_in_a_sql_file_shows_its_line(spark, tmp_path):
    text = "\nCREATE MATERIALIZED VIEW v AS\nSELECT id,\n  idd\nFROM range(3);\n"
    with pytest.raises(PipelineProblem) as caught:
        Pipeline(spark, tmp_path, files={"broken.sql": text}).run()
    assert caught.value.place is not None
    assert caught.value.place.line == 4
    assert caught.value.place.text() == "idd"


def test_a_running_pipeline_is_stopped_between_batches_and_continues_where_it_was(
    spark, tmp_path, shop, data
):
    from threading import Event

    put(data, "1.json", {"item": "tea", "n": 2})
    stopping = Event()
    problems = []

    def stop_after_a_batch() -> None:
        try:
            shop.run(stopping=stopping, available_now=False, refresh_ms=100)
        except Exception as error:
            problems.append(error)

    thread = Thread(target=stop_after_a_batch)
    thread.start()
    deadline = Event()
    for _ in range(600):
        if any(each.flow == "orders" and each.rows for each in list(shop.watcher.batches)):
            break
        deadline.wait(0.1)
    stopping.set()
    thread.join(60)
    assert not problems
    state = json.loads(shop.job().storage.state_file.read_text())
    assert state["state"] == "stopped"
    assert {flow["state"] for flow in state["flows"]} <= {"stopped", "waiting"}
    put(data, "2.json", {"item": "tea", "n": 3})
    shop.run()
    assert sorted(row["n"] for row in shop.rows("tables", "orders", "orders")) == [4, 6]


def test_a_flow_that_fails_for_reasons_outside_is_started_again(shop, data, monkeypatch):
    put(data, "1.json", {"item": "tea", "n": 2})
    original, failures = FlowWriter.start, []

    def sometimes(self, flow, target, rows):
        if flow.name == "orders" and len(failures) < 1:
            failures.append(flow.name)
            raise OSError("the disk is away")
        return original(self, flow, target, rows)

    monkeypatch.setattr(FlowWriter, "start", sometimes)
    assert shop.run(retries=2).state == "done"
    assert shop.watcher.said[-1] == "orders: OSError: the disk is away; it will be restarted"
    with pytest.raises(PipelineProblem, match="the disk is away"):
        failures.clear()
        shop.run(retries=0)


def test_changed_code_continues_from_the_checkpoint_and_what_is_left_of_old_flows_is_named(shop, data):
    put(data, "1.json", {"item": "tea", "n": 2})
    shop.run()
    changed = (shop.folder / "shop.py").read_text().replace("n > 0", "n > 5")
    (shop.folder / "shop.py").write_text(changed)
    (shop.folder / "totals.sql").unlink()
    put(data, "2.json", {"item": "tea", "n": 3}, {"item": "cup", "n": 7})
    shop.run()
    found = sorted((row["item"], row["n"]) for row in shop.rows("tables", "orders", "orders"))
    assert found == [("cup", 14), ("tea", 4)]
    assert any("'large'" in said for said in shop.watcher.said)


def test_files_for_spark_pipelines_run_as_they_are(spark, tmp_path):
    files = {
        "spark-pipeline.yml": "name: theirs\nlibraries:\n  - glob:\n      include: transformations/**\n",
        "transformations/a.py": """
            from pyspark import pipelines as dp
            from pyspark.sql import DataFrame

            @dp.materialized_view
            def example_python_materialized_view() -> DataFrame:
                return spark.range(10)
            """,
        "transformations/b.sql": """
            CREATE MATERIALIZED VIEW example_sql_materialized_view AS
            SELECT id FROM example_python_materialized_view
            WHERE id % 2 = 0
            """,
    }
    pipeline = Pipeline(spark, tmp_path, files=files)
    pipeline.run()
    assert sorted(row["id"] for row in pipeline.rows("views", "example_sql_materialized_view")) == [
        0,
        2,
        4,
        6,
        8,
    ]


def test_names_are_forgotten_when_the_pipeline_is_loaded(shop):
    job = shop.job()
    registry = load_project(job.project, shop.spark)
    resolver_of(job, shop.spark, registry).resolve_all()
    assert not {each.name for each in shop.spark.catalog.listTables()} & set(registry.datasets)


def test_a_restart_takes_changed_files_and_modules_and_keeps_spark_and_checkpoints(spark, tmp_path, data):
    text = """
        from least_number import LEAST
        from ottla.spark import pipelines as dp

        @dp.table
        def numbers():
            return spark.readStream.schema("n INT").json("DATA").where(f"n >= {LEAST}")
        """
    pipeline = Pipeline(spark, tmp_path, files={"flows/a.py": text.replace("DATA", str(data))})
    pipeline.write("spark-pipeline.yml", "name: again\nlibraries:\n  - glob:\n      include: flows/**\n")
    pipeline.write("least_number.py", "LEAST = 2\n")
    put(data, "1.json", {"n": 1}, {"n": 2})
    stopping = Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(pipeline.run, stopping=stopping, available_now=False)
        storage = pipeline.job().storage
        try:
            wait_until(lambda: running.done() or pipeline.watcher.batches, "a batch", within_s=120)
            first = read_state(storage.state_file)
            pipeline.write("least_number.py", "LEAST = 10  # another size, so that no bytecode is reused\n")
            done = ottla_restart(pipeline.root)
            assert done.exit_code == 0, done.output
            put(data, "2.json", {"n": 5}, {"n": 50})
            wait_until(lambda: running.done() or len(pipeline.watcher.batches) > 1, "a batch", within_s=120)
        finally:
            stopping.set()
        assert running.result(120).state == "stopped"
    again = read_state(storage.state_file)
    assert again.started_ms > first.started_ms
    assert again.pid == first.pid
    assert "restarting after the current batches" in pipeline.watcher.said
    assert pipeline.watcher.said.count("starting Spark") == 1
    assert sorted(row["n"] for row in pipeline.rows("tables", "numbers", "numbers")) == [2, 50]
    stopped = ottla_restart(pipeline.root)
    assert stopped.exit_code == 1


def ottla_restart(root):
    return CliRunner().invoke(restart_command, ["again", "--root", str(root), "--timeout", "120"])
