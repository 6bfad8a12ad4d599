"""One Spark session for all tests here, and a broker for each file: a JVM costs more than most tests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.topics import SHORT_LIVED, Topics

from ottla.common.java import JavaNotFound, find_java
from ottla.testing.broker_process import BrokerProcess


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on this machine, as `ottla.spark.session` makes it."""
    try:
        find_java()
    except JavaNotFound as error:
        pytest.skip(str(error))
    from ottla.spark import session
    from ottla.spark.runtime.spark_home import app_cds_archive

    # What py4j says when the JVM goes before it does must not go to streams that pytest has closed.
    py4j = logging.getLogger("py4j")
    py4j.addHandler(logging.NullHandler())
    py4j.propagate = False
    if (archive := app_cds_archive()) is not None:
        archive.make()  # for the JVM of this session, and for all that tests start beside it
    warehouse = tmp_path_factory.mktemp("warehouse")
    made = session(
        "tests",
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": str(warehouse), **SHORT_LIVED},
        log_level="FATAL",
    )
    yield made
    made.stop()


@pytest.fixture(scope="module")
def spark_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker as `ottla serve` starts it, with nothing set. Files may use the same names of topics."""
    with BrokerProcess(tmp_path_factory.mktemp("spark-broker") / "data") as broker:
        yield broker


@pytest.fixture(scope="module")
def topics(spark_broker: BrokerProcess) -> Iterator[Topics]:
    """Topics of that broker: made, filled and read by our own client."""
    with Topics(spark_broker.address) as opened:
        yield opened


@pytest.fixture
def source(spark: Any, spark_broker: BrokerProcess) -> Callable[..., Any]:
    """Reads a topic as a table: `source("orders", endingOffsets=...)`."""

    def read(topic: str | None, **options: str) -> Any:
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", spark_broker.address)
        return (reader if topic is None else reader.option("subscribe", topic)).options(**options).load()

    return read


@pytest.fixture
def stream(spark: Any, spark_broker: BrokerProcess) -> Callable[..., Any]:
    """Reads a topic as a stream, from its beginning if nothing else is said."""

    def read(topic: str, **options: str) -> Any:
        reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", spark_broker.address)
        return reader.option("subscribe", topic).options(**{"startingOffsets": "earliest", **options}).load()

    return read


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A folder for a query's checkpoint."""
    return str(tmp_path / "checkpoint")
