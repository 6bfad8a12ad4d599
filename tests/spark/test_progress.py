"""Progress of real queries: how far behind they are, in Spark's reports and on the board; why they failed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.spark.topics import Topics, numbers
from tests.waiting import wait_until

from ottla.spark.query_progress import BOARD, FAILED, QueryProgress

Read = Callable[..., Any]


def query_of(query_id: str) -> QueryProgress | None:
    return next((each for each in BOARD.queries() if each.id == query_id), None)


def test_a_query_reports_how_far_behind_it_is_and_why_it_failed(
    stream: Read, topics: Topics, checkpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create(partitions=2)
    topics.producer.send(topic, b"old", partition=0, timestamp_ms=int(time.time() * 1000) - 60_000)
    topics.producer.flush()
    topics.fill(topic, numbers(0, 9), partition=1)

    def write(rows: Any, batch_id: int) -> None:
        rows.count()
        if batch_id == 2:
            raise RuntimeError("the third batch")

    rows = stream(topic, maxOffsetsPerTrigger="4")
    writer = rows.writeStream.queryName("behind").foreachBatch(write).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    with caplog.at_level(logging.ERROR, "ottla.spark.queries"), pytest.raises(Exception, match="the third"):
        assert query.awaitTermination(200)
    wait_until(lambda: getattr(query_of(query.id), "state", "") == FAILED, "the end of the query")
    found = query_of(query.id)
    assert found is not None
    assert found.name == "behind"
    assert found.batch == 1
    assert found.rows == sum(each["numInputRows"] for each in query.recentProgress)
    (source,) = found.sources
    assert source.description == f"ottla: {topic} (2 partitions)"
    assert source.behind is not None
    assert 0 < source.behind.total < 10
    assert source.behind.seconds is not None
    assert source.behind.seconds < 60
    assert "the third batch" in str(found.error)
    (said,) = [each.getMessage() for each in caplog.records if each.name == "ottla.spark.queries"]
    assert said == "the query behind has failed: RuntimeError: the third batch"
