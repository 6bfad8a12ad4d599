"""Metrics of a worker, by the names that the JMX exporter gives to Connect's; `/metrics` and the probes."""

from __future__ import annotations

from collections.abc import Iterator

from ottla import __version__
from ottla.connect.group.protocol import CONNECTOR, TaskId
from ottla.connect.herder.herder import Herder
from ottla.connect.sdk import SOURCE
from ottla.http.app import Request, Response, json_response
from ottla.http.metrics import RequestCounts, Sample, metrics_response
from ottla.http.routing import Routes

METRICS = {
    "kafka_connect_worker_connector_count": "Connectors that this worker runs.",
    "kafka_connect_worker_task_count": "Tasks that this worker runs.",
    "kafka_connect_worker_task_startup_failure_total": "Tasks that have failed on this worker.",
    "kafka_connect_worker_rebalance_leader_name": "1, with the leader of the group in the label.",
    "kafka_connect_worker_rebalance_epoch": "The generation of the group.",
    "kafka_connect_worker_rebalance_completed_rebalances_total": "Rebalances that this worker has seen.",
    "kafka_connect_worker_rebalance_rebalancing": "1 while a rebalance is in progress.",
    "kafka_connect_connector_status": "1 for the state of each connector, which is in a label.",
    "kafka_connect_connector_task_status": "1 for the state of each task, which is in a label.",
    "kafka_connect_connector_task_batch_size_avg": "Records of a batch, on average.",
    "kafka_connect_connector_task_batch_size_max": "Records of the largest batch.",
    "kafka_connect_connector_task_offset_commit_avg_time_ms": "Duration of a batch, on average.",
    "kafka_connect_source_task_source_record_write_total": "Records that a source has written to topics.",
    "kafka_connect_source_task_source_record_poll_total": "Records that a source has read.",
    "kafka_connect_sink_task_sink_record_read_total": "Records that a sink has read.",
    "kafka_connect_sink_task_sink_record_send_total": "Records that a sink has given to its target.",
    "kafka_connect_task_error_deadletterqueue_produce_requests_total": "Records in the dead-letter topic.",
    "kafka_connect_task_error_total_task_failures": "Failures of a task.",
    "ottla_connect_alarms": "Alarms of each source, such as a replication slot that holds the log.",
    **RequestCounts("ottla_connect").help(),
}
"""The metrics, with their help texts."""


class WorkerMetrics:
    """Looks at the herder when it is scraped."""

    def __init__(self, herder: Herder) -> None:
        self._herder = herder
        self.requests = RequestCounts("ottla_connect")

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        routes.add("GET", "/metrics", self.scrape)
        routes.add("GET", "/healthz", self.health)
        routes.add("GET", "/readyz", self.readiness)

    async def health(self, request: Request) -> Response:
        """Answer the liveness probe."""
        return json_response({"status": "ok", "version": __version__})

    async def readiness(self, request: Request) -> Response:
        """Answer the readiness probe: 503 while a rebalance is in progress."""
        if self._herder.settled.is_set():
            return json_response({"status": "ready"})
        return json_response({"status": "not ready", "reasons": ["a rebalance is in progress"]}, 503)

    async def scrape(self, request: Request) -> Response:
        """Answer in Prometheus' text format, or OpenMetrics."""
        return metrics_response(request, METRICS, self.samples())

    def samples(self) -> Iterator[tuple[str, list[Sample]]]:
        """Yield each metric with its samples."""
        yield from self._worker()
        yield from self._tasks()

    def _worker(self) -> Iterator[tuple[str, list[Sample]]]:
        herder = self._herder
        ours = herder.ours
        prefix = "kafka_connect_worker_"
        yield prefix + "connector_count", [({}, sum(each.task == CONNECTOR for each in ours))]
        yield prefix + "task_count", [({}, sum(each.task != CONNECTOR for each in ours))]
        failures = sum(each.failures for each in herder.runner.counters.values())
        yield prefix + "task_startup_failure_total", [({}, failures)]
        yield prefix + "rebalance_leader_name", [({"leader_name": herder.leader_url or ""}, 1)]
        yield prefix + "rebalance_epoch", [({}, herder.generation)]
        yield prefix + "rebalance_completed_rebalances_total", [({}, herder.rebalances)]
        yield prefix + "rebalance_rebalancing", [({}, int(not herder.settled.is_set()))]
        yield (
            "kafka_connect_connector_status",
            [
                ({"connector": what.connector, "status": status.state.lower()}, 1)
                for what, status in herder.statuses.states.items()
                if what.task == CONNECTOR
            ],
        )
        yield (
            "kafka_connect_connector_task_status",
            [
                ({**_labels(what), "status": status.state.lower()}, 1)
                for what, status in herder.statuses.states.items()
                if what.task != CONNECTOR
            ],
        )
        alarms = herder.planner.alarms
        yield "ottla_connect_alarms", [({"connector": name}, len(each)) for name, each in alarms.items()]
        yield from self.requests.samples()

    def _tasks(self) -> Iterator[tuple[str, list[Sample]]]:
        counters = self._herder.runner.counters
        both = [(_labels(what), each) for what, each in counters.items()]
        task = "kafka_connect_connector_task_"
        yield task + "batch_size_avg", [(names, each.records / max(1, each.batches)) for names, each in both]
        yield task + "batch_size_max", [(names, each.largest_batch) for names, each in both]
        yield (
            task + "offset_commit_avg_time_ms",
            [(names, each.batch_ms / max(1, each.batches)) for names, each in both],
        )
        for kind, names in (
            ("source", ("source_record_write_total", "source_record_poll_total")),
            ("sink", ("sink_record_read_total", "sink_record_send_total")),
        ):
            chosen = [(_labels(what), each) for what, each in counters.items() if self._kind(what) == kind]
            for name in names:
                yield f"kafka_connect_{kind}_task_{name}", [(labels, each.records) for labels, each in chosen]
        error = "kafka_connect_task_error_"
        yield error + "deadletterqueue_produce_requests_total", [(n, each.dead_letters) for n, each in both]
        yield error + "total_task_failures", [(names, each.failures) for names, each in both]

    def _kind(self, what: TaskId) -> str:
        config = self._herder.state.connectors.get(what.connector, {})
        try:
            return self._herder.plugins.connector(config.get("connector.class")).kind
        except Exception:
            return SOURCE


def _labels(what: TaskId) -> dict[str, str]:
    return {"connector": what.connector, "task": str(what.task)}
