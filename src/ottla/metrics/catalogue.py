"""All metrics, by name."""

from __future__ import annotations

from types import ModuleType

from ottla.metrics import exporter_metrics, jmx_metrics, own_metrics
from ottla.metrics.metric import Metric

PROCESS_SAMPLES = (
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
    "python_gc_collections_total",
    "python_gc_objects_collected_total",
    "python_gc_objects_uncollectable_total",
    "python_info",
)
"""The metrics that the Prometheus client adds for any Python process."""


def _declared(module: ModuleType) -> tuple[Metric, ...]:
    found: list[Metric] = []
    for value in vars(module).values():
        if isinstance(value, Metric):
            found.append(value)
        elif isinstance(value, dict):
            found += [each for each in value.values() if isinstance(each, Metric)]
    return tuple(found)


FAMILIES = {
    "jmx": _declared(jmx_metrics),
    "exporter": _declared(exporter_metrics),
    "own": _declared(own_metrics),
}
METRICS = {each.name: each for metrics in FAMILIES.values() for each in metrics}


def served_names() -> frozenset[str]:
    """Return every name that a query may use."""
    return frozenset(name for each in METRICS.values() for name in each.sample_names) | set(PROCESS_SAMPLES)
