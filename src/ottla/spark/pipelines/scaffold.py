"""`ottla pipeline init`: create a working project with a pipeline, sample records and a test."""

from __future__ import annotations

from pathlib import Path

from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.spec import SPEC_NAMES

SPEC = """\
# The fields of Spark's Declarative Pipelines: name, storage, configuration, libraries.
name: {name}
configuration:
  spark.sql.shuffle.partitions: "2"
libraries:
  - glob:
      include: transformations/**
"""

PIPELINE = '''\
"""Orders come in as JSON; revenue per minute and item goes out, and so does every large order."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from ottla.spark import pipelines as dp

spark = SparkSession.active()

ORDER = "item STRING, quantity INT, price DOUBLE, at TIMESTAMP"


@dp.temporary_view
def orders():
    """The topic `shop-orders`, value by value."""
    return dp.read_topic("shop-orders", schema=ORDER)


@dp.table(format="ottla", options={"topic": "revenue", "key": "item"})
def revenue():
    """A window is written once: when orders come that are two minutes younger than its end."""
    return (
        spark.readStream.table("orders")
        .withWatermark("at", "2 minutes")
        .groupBy(sf.window("at", "1 minute"), "item")
        .agg(
            sf.sum("quantity").alias("pieces"),
            sf.round(sf.sum(sf.expr("quantity * price")), 2).alias("revenue"),
        )
        .select("window.start", "item", "pieces", "revenue")
    )
'''

SQL = """\
-- Every order of 100 or more, as it comes.
CREATE STREAMING TABLE large_orders
USING ottla TBLPROPERTIES ('topic' = 'large-orders', 'key' = 'item')
AS SELECT item, quantity, price, at FROM STREAM orders WHERE quantity * price >= 100;
"""

SAMPLE = """\
{"item": "tea", "quantity": 2, "price": 4.5, "at": "2026-01-01T10:00:05Z"}
{"item": "cup", "quantity": 12, "price": 9.0, "at": "2026-01-01T10:00:20Z"}
{"item": "tea", "quantity": 1, "price": 4.5, "at": "2026-01-01T10:00:59Z"}
{"item": "tea", "quantity": 3, "price": 4.5, "at": "2026-01-01T10:01:10Z"}
{"item": "pot", "quantity": 1, "price": 30.0, "at": "2026-01-01T10:09:00Z"}
"""

EXPECTED_REVENUE = """\
{"start": "2026-01-01T10:00:00.000Z", "item": "tea", "pieces": 3, "revenue": 13.5}
{"start": "2026-01-01T10:00:00.000Z", "item": "cup", "pieces": 12, "revenue": 108.0}
{"start": "2026-01-01T10:01:00.000Z", "item": "tea", "pieces": 3, "revenue": 13.5}
"""

EXPECTED_LARGE = """\
{"item": "cup", "quantity": 12, "price": 9.0, "at": "2026-01-01T10:00:20.000Z"}
"""

README = """\
# {name}

    ottla pipeline test .                       the flows on the sample in tests/, compared; needs no broker
    ottla serve                                 a broker, in another terminal
    ottla produce shop-orders < samples/orders.jsonl
    ottla pipeline run . --available-now        or without it: runs until Ctrl-C
    ottla consume revenue --from-beginning --exit
"""


def files_of(name: str) -> dict[str, str]:
    """Return the files of a new project, by path."""
    return {
        SPEC_NAMES[0]: SPEC.format(name=name),
        "README.md": README.format(name=name),
        "transformations/orders.py": PIPELINE,
        "transformations/large_orders.sql": SQL,
        "samples/orders.jsonl": SAMPLE,
        "tests/minutes/input/shop-orders.jsonl": SAMPLE,
        "tests/minutes/expected/revenue.jsonl": EXPECTED_REVENUE,
        "tests/minutes/expected/large-orders.jsonl": EXPECTED_LARGE,
    }


def scaffold(folder: Path) -> list[Path]:
    """Write a new project into `folder`; raise PipelineProblem if that would overwrite anything."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PipelineProblem(f"{folder} exists and is not empty", "name another folder")
    written = []
    for path, text in files_of(folder.absolute().name).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written
