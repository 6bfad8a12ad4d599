"""Serve `/metrics`, `/healthz` and `/readyz` of one broker, from its start to its stop.

A scrape collects samples on the event loop, a few milliseconds at a time, and encodes them in a thread. One
scrape runs at a time; others wait.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from ottla.common.listeners import Address
from ottla.common.yielding import run_in_slices
from ottla.metrics import (
    broker_source,
    coordinator_source,
    health,
    jmx_metrics,
    own_metrics,
    partition_source,
)
from ottla.metrics.http_server import HttpServer, Request, Response
from ottla.metrics.recent import Recent
from ottla.metrics.remote_lag import measure_remote_lag
from ottla.metrics.samples import Samples
from ottla.metrics.view import BrokerView

logger = logging.getLogger(__name__)

INDEX = b"""Ottla: /metrics for Prometheus, /healthz for liveness, /readyz for readiness
"""
BROKER_STATES = {health.STARTING: 1, health.RUNNING: 3, health.STOPPING: 6}


class MetricsService:
    """The HTTP endpoints of a broker. `view` is None until the broker is complete."""

    def __init__(self) -> None:
        self.address: Address | None = None
        """The bound address, if it is served."""
        self.phase = health.STARTING
        self.view: BrokerView | None = None
        self.recent = Recent(lambda: () if self.view is None else self.view.dispatcher.times())
        self._http = HttpServer(self._answer)
        self._scrape_lock = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "ottla-metrics")
        self._scrape_s = 0.0

    async def start(self, host: str, port: int, *, is_required: bool) -> None:
        """Start listening. If the port is taken, raise OSError if `is_required`, otherwise log a warning."""
        try:
            self.address = await self._http.start(host, port)
        except OSError as error:
            if is_required:
                raise
            logger.warning(
                "metrics are not served: cannot listen on %s (%s); another broker may use it. "
                "Set another address with --metrics HOST:PORT, or --metrics off",
                Address(host, port), error.strerror or error,
            )  # fmt: skip
            return
        self.recent.start()

    def publish(self, view: BrokerView) -> None:
        """Serve all metrics, now that the broker is complete."""
        self.view, self.phase = view, health.RUNNING

    async def stop(self) -> None:
        """End it."""
        self.recent.stop()
        await self._http.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, request: Request) -> Response:
        match request.path:
            case "/metrics":
                return await self._metrics(request)
            case "/healthz":
                return health.health(self.view, self.phase, self.recent.loop_lag_s)
            case "/readyz":
                return await health.readiness(self.view, self.phase)
            case "/":
                return Response(INDEX)
        return Response(b"not found; try /metrics, /healthz or /readyz\n", status=404)

    async def _metrics(self, request: Request) -> Response:
        async with self._scrape_lock:
            loop = asyncio.get_running_loop()
            began = loop.time()
            samples = await self._collect()
            body, content_type = await loop.run_in_executor(
                self._thread, _render, samples, request.accept, request.accepts_gzip
            )
            self._scrape_s = loop.time() - began
        encoding = (("Content-Encoding", "gzip"),) if request.accepts_gzip else ()
        return Response(body, content_type, headers=(*encoding, ("Vary", "Accept, Accept-Encoding")))

    async def _collect(self) -> Samples:
        samples, view = Samples(), self.view
        samples.put(jmx_metrics.BROKER_STATE, BROKER_STATES[self.phase])
        samples.put(own_metrics.LOOP_LAG, self.recent.loop_lag_s)
        samples.put(own_metrics.LOOP_LAG_MAX, self.recent.largest_loop_lag_s)
        samples.put(own_metrics.SCRAPE_SECONDS, self._scrape_s)
        if view is None:
            samples.put(own_metrics.READY, 0)
            return samples
        found = await broker_source.health(view, samples)
        samples.put(own_metrics.READY, health.is_ready_now(self.phase, found))
        broker_source.broker(view, samples)
        broker_source.network(view, samples)
        broker_source.quotas(view, samples)
        broker_source.requests(view, samples, self.recent)
        await run_in_slices(broker_source.topics(view, samples))
        await run_in_slices(partition_source.partitions(view, samples))
        await run_in_slices(partition_source.cluster(view, samples))
        remote = await measure_remote_lag(view.services)
        await run_in_slices(coordinator_source.groups(view, samples, remote))
        await run_in_slices(coordinator_source.transactions(view, samples))
        return samples


def _render(samples: Samples, accept: str, zipped: bool) -> tuple[bytes, str]:
    from ottla.metrics.exposition import render  # in the thread: the first import takes a tenth of a second

    return render(samples, accept, zipped=zipped)
