"""Metrics of a console process: `/metrics`. They name no cluster, user or topic, so they need no login."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.console.console import Console
from ottla.http.app import Request, Response
from ottla.http.metrics import RequestCounts, Sample, metrics_response

PREFIX = "ottla_console"
METRICS = {
    **RequestCounts(PREFIX).help(),
    "ottla_console_streams": "Open tails, searches and downloads.",
    "ottla_console_sessions": "Sessions of browsers that have not ended.",
    "ottla_console_clusters": "Clusters, by whether a broker answers.",
}
"""The metrics, with their help texts."""


class ConsoleMetrics:
    """Counts requests, and looks at the console when it is scraped."""

    def __init__(self, console: Console, streams: Callable[[], int]) -> None:
        self._console = console
        self._streams = streams
        self.requests = RequestCounts(PREFIX)

    async def scrape(self, request: Request) -> Response:
        """Answer in Prometheus' text format, or OpenMetrics."""
        return metrics_response(request, METRICS, self._samples())

    def _samples(self) -> Iterator[tuple[str, list[Sample]]]:
        yield from self.requests.samples()
        yield "ottla_console_streams", [({}, self._streams())]
        yield "ottla_console_sessions", [({}, sum(1 for _ in self._console.sessions))]
        clusters = self._console.clusters.values()
        lost = sum(each.problem is not None for each in clusters)
        yield (
            "ottla_console_clusters",
            [({"reachable": "true"}, len(clusters) - lost), ({"reachable": "false"}, lost)],
        )
