"""Listen to the progress of all streaming queries of a session; `ottla.spark.session` does so by default.

spark.ottla.progress            false: do not listen
spark.ottla.metrics.listen      HOST:PORT: serve /metrics for Prometheus and /status as JSON
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.spark.driver_endpoint import DriverEndpoint, listen_address
from ottla.spark.errors import WrongOption
from ottla.spark.messages import sentence
from ottla.spark.query_progress import BOARD, QueryBoard

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.spark.queries")

PROGRESS, LISTEN = "spark.ottla.progress", "spark.ottla.metrics.listen"
_endpoint: DriverEndpoint | None = None
_heard: set[str] = set()
"""The sessions that have a listener: one is enough."""


def listen(spark: SparkSession, board: QueryBoard = BOARD) -> Any:
    """Add a listener to a session that keeps the board up to date; return it."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class ProgressListener(StreamingQueryListener):
        """Keeps the board up to date, and says in one sentence why a query has failed."""

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            """A query was started: it is on the board after its first batch."""

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            """A query has finished a batch."""
            board.report(json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            """A query waits for records."""

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            """A query has ended."""
            error = sentence(event.exception) if event.exception else None
            query = board.ended(str(event.id), str(event.runId), error)
            if error is not None:
                log.error("the query %s has failed: %s", query.name, error)

    listener = ProgressListener()
    spark.streams.addListener(listener)
    return listener


def start_listening(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Listen to a session, and serve its metrics, as its settings say."""
    global _endpoint
    session_id = str(spark._jsparkSession.sessionUUID())
    if settings.get(PROGRESS, "true").lower() != "false" and session_id not in _heard:
        _heard.add(session_id)
        listen(spark)
    address = settings.get(LISTEN)
    if address and _endpoint is None:
        try:
            host, port = listen_address(address)
        except ValueError as error:
            raise WrongOption(LISTEN, str(error)) from None
        _endpoint = DriverEndpoint(BOARD)
        _endpoint.start(host, port)
        log.warning("metrics of the driver: %s/metrics", _endpoint.url)
