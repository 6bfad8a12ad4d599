"""The option table against Spark's Kafka connector itself, and checkpoints that move between the formats."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.fetch_jars import CONNECTOR_JARS
from tests.spark.topics import Topics, numbers

from ottla.spark.checkpoint_files import CheckpointFiles
from ottla.spark.connector_options import CONNECTOR
from ottla.spark.errors import WrongOption
from ottla.spark.options import SINK, SOURCE, GivenOptions
from ottla.spark.sink.writing import read_sink_options
from ottla.spark.source.options import read_source_options
from ottla.testing.broker_process import BrokerProcess

pytest.importorskip("pyspark")

PROVIDER = "org/apache/spark/sql/kafka010/KafkaSourceProvider$.class"
BROKER = {"kafka.bootstrap.servers": "localhost:9092"}
PREFIXES = ("starting", "ending", "min", "max", "fetchoffset", "kafkaconsumer", "include", "group", "fail")
"""How the names of options begin, among the other words of the class."""
OF_THE_CLIENT = {"max.poll.records", "group.id"}


@pytest.fixture(scope="module")
def jars() -> str:
    if not CONNECTOR_JARS.is_dir():
        pytest.skip(f"Spark's Kafka connector is not in {CONNECTOR_JARS}; fetch it with: make interop")
    return ",".join(map(str, sorted(CONNECTOR_JARS.glob("*.jar"))))


@pytest.fixture(scope="module")
def spark(jars: str) -> Iterator[Any]:
    from ottla.spark import session

    made = session("options", master="local[2]", conf={"spark.jars": jars}, log_level="FATAL")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    folder = tmp_path_factory.mktemp("broker") / "data"
    with BrokerProcess(folder) as broker, Topics(broker.address) as opened:
        yield opened


def words_of_the_provider() -> set[str]:
    """Return the texts in the class that reads the connector's options."""
    jar = next(CONNECTOR_JARS.glob("spark-sql-kafka-*.jar"))
    raw = zipfile.ZipFile(jar).read(PROVIDER)
    found = re.findall(rb"\x01\x00[\x02-\x40]([_a-z][A-Za-z.]*)(?=[\x01-\x14]\x00)", raw)
    return {each.decode().lower() for each in found}


def test_the_table_has_every_option_of_the_connector(jars: str) -> None:
    words = words_of_the_provider()
    known = {each.lower() for each in CONNECTOR}
    theirs = {each for each in words if each.startswith(PREFIXES)} - OF_THE_CLIENT
    assert {"fetchoffset.numretries", "minpartitions", "startingtimestamp"} <= theirs
    assert theirs <= known
    assert known - words == {"kafka.bootstrap.servers", "kafka.group.id"}


def test_every_option_of_javas_clients_is_accepted_or_refused_with_a_reason(spark: Any) -> None:
    clients = spark._jvm.org.apache.kafka.clients
    unknown = {}
    for config, use in ((clients.consumer.ConsumerConfig, SOURCE), (clients.producer.ProducerConfig, SINK)):
        defaults = dict(config.configDef().defaultValues())
        for name in (each for each in config.configNames() if not each.startswith("internal.")):
            value = str(defaults.get(name)).strip("[]").removeprefix("class ")
            given = {**BROKER, f"kafka.{name}": BROKER.get(f"kafka.{name}", value)}
            try:
                GivenOptions(given, use)
                if use == SOURCE:
                    read_source_options({"subscribe": "t", **given}, is_stream=True)
                else:
                    read_sink_options({"topic": "t", **given})
            except WrongOption as error:
                if "unknown" in str(error):
                    unknown[name] = value
    assert unknown == {}


def test_a_checkpoint_moves_to_ottla_and_back(spark: Any, topics: Topics, tmp_path: Path) -> None:
    into, out = topics.create(partitions=2), topics.create()
    checkpoint = str(tmp_path / "checkpoint")

    def run(name: str, first: int, last: int) -> None:
        topics.fill(into, numbers(first, last))
        servers = {"kafka.bootstrap.servers": topics.address}
        reader = spark.readStream.format(name).options(**servers).option("subscribe", into)
        rows = reader.option("startingOffsets", "earliest").load().selectExpr("value")
        writer = rows.writeStream.format(name).options(**servers).option("topic", out)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(200)
        assert query.exception() is None
        assert topics.values(out) == numbers(0, last)

    run("kafka", 0, 10)
    run("ottla", 10, 20)
    run("ottla", 20, 25)
    assert CheckpointFiles(Path(checkpoint)).export() >= 2
    run("kafka", 25, 30)
    run("ottla", 30, 35)
