from __future__ import annotations

import json

import pytest
from tests.postgres_server import postgres_server
from tests.spark.pipeline_runs import Pipeline
from tests.spark.test_pipeline_topics import EXAMPLES, copy, send
from tests.spark.topics import Topics

from ottla.spark.errors import StaleCheckpoint
from ottla.spark.pipelines import read_postgres
from ottla.spark.pipelines.postgres.write import Target, connect, done_until, write_batch
from ottla.testing.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def dsn():
    with postgres_server() as running:
        yield running.url


@pytest.fixture
def database(dsn):
    with connect(dsn) as connection:
        connection.execute("DROP TABLE IF EXISTS stock, prices, log, ottla_batches, kinds")
        connection.execute("CREATE TABLE stock (item text PRIMARY KEY, pieces int)")
        connection.execute("CREATE TABLE log (n int)")
        connection.execute("CREATE TABLE prices (id bigint PRIMARY KEY, item text, price numeric(10,2))")
        connection.commit()
        connection.autocommit = True
        yield connection


def rows(database, table):
    return sorted(database.execute(f"SELECT * FROM {table}").fetchall())


def test_a_batch_written_again_changes_nothing_whatever_the_partitions(spark, database, dsn):
    target = Target("stock", dsn, ("item",))
    batch = spark.createDataFrame([(f"i{n % 50}", n) for n in range(200)], "item string, pieces int")
    latest = batch.groupBy("item").max("pieces").toDF("item", "pieces")
    assert write_batch(latest, target, "q", 0) == 50
    first = rows(database, "stock")
    database.execute("UPDATE ottla_batches SET batch = -1")  # as if the driver had died before its mark
    assert write_batch(latest.repartition(7), target, "q", 0) == 50
    assert rows(database, "stock") == first
    assert write_batch(latest, target, "q", 0) == 0
    assert done_until(database, "q") == 0


def test_without_a_key_a_batch_is_added_once(spark, database, dsn):
    target = Target("log", dsn)
    batch = spark.range(100).selectExpr("cast(id as int) AS n").repartition(4)
    for _ in range(3):
        write_batch(batch, target, "q", 5)
    assert rows(database, "log") == [(n,) for n in range(100)]


def test_an_older_checkpoint_is_refused(spark, database, dsn):
    database.execute("CREATE TABLE ottla_batches (query text PRIMARY KEY, batch bigint NOT NULL)")
    database.execute("INSERT INTO ottla_batches VALUES ('q', 5)")  # before plans were stored
    target = Target("stock", dsn, ("item",))
    batch = spark.createDataFrame([("tea", 1)], "item string, pieces int")
    assert write_batch(batch, target, "q", 5, "one plan") == 0
    assert write_batch(batch, target, "q", 6, "one plan") == 1
    assert write_batch(batch, target, "q", 6, "one plan") == 0
    for number, plan in ((6, "another plan"), (5, "one plan")):
        with pytest.raises(StaleCheckpoint, match="batch 6 of this query was already written"):
            write_batch(batch, target, "q", number, plan)


def test_the_example_follows_a_changelog_and_copies_a_table(spark, tmp_path, database, dsn, monkeypatch):
    for name, value in zip(
        ("PGHOST", "PGPORT"), dsn.rpartition("@")[2].partition("/")[0].split(":"), strict=True
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PGUSER", "tester")
    monkeypatch.setenv("PGDATABASE", "postgres")
    database.execute("INSERT INTO prices VALUES (1, 'tea', 4.5), (2, 'cup', 9)")
    with BrokerProcess(tmp_path / "broker") as broker, Topics(broker.address) as own:
        pipeline = Pipeline(spark, tmp_path, broker.address)
        send(own, "stock", ("tea", {"pieces": 5}), ("cup", {"pieces": 1}), ("tea", {"pieces": 4}))
        pipeline.run(EXAMPLES / "postgres.py")
        assert rows(database, "stock") == [("cup", 1), ("tea", 4)]
        send(own, "stock", ("cup", None), ("pot", {"pieces": 9}))
        pipeline.run(EXAMPLES / "postgres.py")
        assert rows(database, "stock") == [("pot", 9), ("tea", 4)]
        prices = [json.loads(record.value) for record in own.records("prices")]
        assert sorted((price["id"], price["item"], price["price"]) for price in prices) == [
            (1, "tea", 4.5),
            (2, "cup", 9.0),
        ]
        database.execute("CREATE TABLE IF NOT EXISTS kinds (item text PRIMARY KEY, pieces int)")
        copy(pipeline, "postgres:stock", "postgres:kinds", key="item", dsn=dsn)
        assert rows(database, "kinds") == rows(database, "stock")


def test_a_table_is_read_in_ranges_with_its_types(spark, database, dsn):
    database.execute("INSERT INTO prices SELECT n, 'item ' || n, n / 4.0 FROM generate_series(1, 1000) AS n")
    read = read_postgres("prices", dsn=dsn, partition_column="id", partitions=4, spark=spark)
    assert [kind for _, kind in read.dtypes] == ["bigint", "string", "decimal(10,2)"]
    found = read.collect()
    assert len(found) == 1000
    assert {row["id"] for row in found} == set(range(1, 1001))
    assert read.rdd.getNumPartitions() == 4
    assert float(next(row["price"] for row in found if row["id"] == 10)) == 2.5


def test_a_column_that_the_table_lacks_is_named(spark, database, dsn):
    batch = spark.createDataFrame([("a", 1, 2)], "item string, pieces int, colour int")
    with pytest.raises(Exception, match="has no column 'colour'"):
        write_batch(batch, Target("stock", dsn, ("item",)), "q", 0)
