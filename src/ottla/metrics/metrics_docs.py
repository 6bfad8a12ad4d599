"""The reference page of metrics, generated from the declarations: docs/metrics.md."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.metrics.catalogue import FAMILIES, PROCESS_SAMPLES
from ottla.metrics.metric import Metric

_INTRODUCTION = """\
# Metrics

<!-- Written from src/ottla/metrics/*_metrics.py; change them there. -->

Every metric that a broker serves at `/metrics`. [observability.md](observability.md) says how to scrape them,
which to watch, and what a scrape costs.

*Reported by* names the brokers that serve the metric. Metrics of the cluster, a partition or a group are
reported by one broker, so a sum over all brokers is right. Counters start at 0 with the broker.
"""

_TITLES = {
    "jmx": "Kafka's own metrics, by the names of the JMX exporter",
    "exporter": "Topics and consumer groups, by the names of kafka_exporter",
    "own": "Ottla's own",
}


def metrics_page() -> str:
    """Return the whole page."""
    parts = [_INTRODUCTION]
    for family, title in _TITLES.items():
        parts += [f"## {title}\n", _table(FAMILIES[family])]
    names = ", ".join(f"`{name}`" for name in PROCESS_SAMPLES)
    parts += ["## The process\n", f"As of any Python program with a Prometheus client: {names}.\n"]
    return "\n".join(parts)


def _table(metrics: Iterable[Metric]) -> str:
    lines = ["| metric | kind | labels | reported by | meaning |", "| --- | --- | --- | --- | --- |"]
    for each in metrics:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        lines.append(
            f"| `{each.name}` | {each.kind.value} | {labels} | {each.reporter.value} | {each.help} |"
        )
    return "\n".join(lines) + "\n"
