"""The declaration of a metric: name, kind, labels, help text, and which broker reports it.

The exposition, docs/metrics.md and the check of dashboards are derived from the declarations: jmx_metrics.py
(Kafka's own metrics, by the names of the JMX exporter), exporter_metrics.py (those of kafka_exporter) and
own_metrics.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The type of a metric, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


class Reporter(Enum):
    """Which broker reports it. Metrics of the cluster have one reporter, so that sums are right."""

    EACH = "each broker, for itself"
    LEADER = "the partition leader"
    REPLICA = "every broker with a replica"
    COORDINATOR = "the group coordinator"
    CONTROLLER = "the controller"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, by the name under which it is served (counters end in `_total`)."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    reporter: Reporter = Reporter.EACH

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names that queries may use."""
        match self.kind:
            case Kind.HISTOGRAM:
                return tuple(f"{self.name}{suffix}" for suffix in ("_bucket", "_count", "_sum"))
            case Kind.SUMMARY:
                return (self.name, f"{self.name}_count", f"{self.name}_sum")
        return (self.name,)


def counter(name: str, help_text: str, *labels: str, reporter: Reporter = Reporter.EACH) -> Metric:
    """Declare a metric that only increases."""
    assert name.endswith("_total"), name
    return Metric(name, Kind.COUNTER, help_text, labels, reporter)


def gauge(name: str, help_text: str, *labels: str, reporter: Reporter = Reporter.EACH) -> Metric:
    """Declare a metric that goes up and down."""
    return Metric(name, Kind.GAUGE, help_text, labels, reporter)
