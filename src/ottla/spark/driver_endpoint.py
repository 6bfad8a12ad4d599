"""The HTTP endpoint of a driver: /metrics for Prometheus, /status as JSON. Read-only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from ottla.client.event_loop_thread import EventLoopThread
from ottla.common.listeners import Address
from ottla.metrics.http_server import HttpServer, Request, Response
from ottla.metrics.metric import Kind, Metric, counter, gauge
from ottla.spark.query_progress import FAILED, RUNNING, QueryBoard, QueryProgress

LABELS = ("query", "id")
PLACE = (*LABELS, "source")

RUNNING_METRIC = gauge("ottla_spark_query_running", "1 while the query runs, 0 after its end.", *LABELS)
FAILED_METRIC = gauge("ottla_spark_query_failed", "1 if the query has ended with an error.", *LABELS)
BATCH = gauge("ottla_spark_query_batch", "The last finished batch.", *LABELS)
ROWS = counter("ottla_spark_query_rows_total", "Rows read in this run.", *LABELS)
BATCH_ROWS = gauge("ottla_spark_query_batch_rows", "Rows of the last batch.", *LABELS)
BATCH_SECONDS = gauge("ottla_spark_query_batch_seconds", "Duration of the last batch.", *LABELS)
RATE = gauge("ottla_spark_query_rows_per_second", "Rows processed per second in the last batch.", *LABELS)
STATE_ROWS = gauge("ottla_spark_query_state_rows", "Rows in the state of the query.", *LABELS)
UPDATED = gauge("ottla_spark_query_updated_timestamp_seconds", "Time of the last report.", *LABELS)
BEHIND_AVG = gauge("ottla_spark_source_offsets_behind_avg", "Offsets behind, mean of partitions.", *PLACE)
BEHIND_MAX = gauge("ottla_spark_source_offsets_behind_max", "Offsets behind, worst partition.", *PLACE)
BEHIND_MIN = gauge("ottla_spark_source_offsets_behind_min", "Offsets behind, best partition.", *PLACE)
BEHIND = gauge("ottla_spark_source_offsets_behind", "Offsets behind, all partitions.", *PLACE)
SECONDS = gauge("ottla_spark_source_seconds_behind", "Age of the oldest record not yet read.", *PLACE)

MAX_PORT = 65_535
INDEX = b"Ottla on Spark: /metrics for Prometheus, /status as JSON\n"

Sample = tuple[Metric, tuple[str, ...], float]
Status = Callable[[], dict[str, Any] | None]


class DriverEndpoint:
    """Serves what is on a board, in a thread of its own."""

    def __init__(self, board: QueryBoard, status: Status = lambda: None) -> None:
        self._board = board
        self._status = status
        self._http = HttpServer(self._answer)
        self._thread: EventLoopThread | None = None
        self._address: Address | None = None

    @property
    def url(self) -> str:
        """Where it is served; empty if it is not."""
        return "" if self._address is None else f"http://{self._address.host}:{self._address.port}"

    def start(self, host: str, port: int) -> None:
        """Listen; raise OSError if that is impossible."""
        self._thread = EventLoopThread("ottla spark endpoint")
        try:
            self._address = self._thread.run(self._http.start(host, port))
        except BaseException:
            self._thread.close()
            raise

    def close(self) -> None:
        """Stop listening."""
        if self._thread is not None:
            self._thread.run(self._http.stop())
            self._thread.close()
            self._thread = None

    async def _answer(self, request: Request) -> Response:
        if request.path == "/metrics":
            return Response(*render(self._board.queries(), request.accept))
        if request.path == "/status":
            found = self._status()
            queries = [each.as_json() for each in self._board.queries()]
            text = json.dumps({"pipeline": found, "queries": queries}, indent=2) + "\n"
            return Response(text.encode(), "application/json")
        if request.path == "/":
            return Response(INDEX)
        return Response(b"there is only /metrics and /status\n", status=404)


def listen_address(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, where port 0 is any; raise ValueError if it is not."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def samples(queries: list[QueryProgress]) -> Iterator[Sample]:
    """Yield the metrics of queries."""
    for each in queries:
        labels = (each.name, each.id)
        yield RUNNING_METRIC, labels, float(each.state == RUNNING)
        yield FAILED_METRIC, labels, float(each.state == FAILED)
        yield BATCH, labels, float(-1 if each.batch is None else each.batch)
        yield ROWS, labels, float(each.rows)
        yield BATCH_ROWS, labels, float(each.batch_rows)
        yield BATCH_SECONDS, labels, each.batch_ms / 1000
        yield RATE, labels, each.rows_per_second
        yield STATE_ROWS, labels, float(each.state_rows)
        yield UPDATED, labels, each.updated_ms / 1000
        for source in each.sources:
            if source.behind is not None:
                places = (*labels, source.description)
                yield BEHIND_AVG, places, source.behind.avg
                yield BEHIND_MAX, places, float(source.behind.max)
                yield BEHIND_MIN, places, float(source.behind.min)
                yield BEHIND, places, float(source.behind.total)
                if source.behind.seconds is not None:
                    yield SECONDS, places, source.behind.seconds


def render(queries: list[QueryProgress], accept: str) -> tuple[bytes, str]:
    """Return the body of a scrape and its content type."""
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.registry import Collector

    class Families(Collector):
        """The samples, by metric."""

        def collect(self) -> Iterator[Family]:
            families: dict[str, Family] = {}
            for metric, labels, value in samples(queries):
                shown = metric.name.removesuffix("_total") if metric.kind is Kind.COUNTER else metric.name
                family = families.setdefault(metric.name, Family(shown, metric.help, metric.kind.value))
                family.add_sample(metric.name, dict(zip(metric.labels, labels, strict=True)), value)
            yield from families.values()

    encode, content_type = choose_encoder(accept)
    return encode(Families()), content_type
