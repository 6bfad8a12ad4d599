"""A metric is declared once: its name, its kind, its labels, what it says, and which broker says it.

What is served, docs/metrics.md and the check of dashboards are derived from the declarations, which are in
jmx_metrics.py (the names that the JMX exporter gives to Kafka's own), exporter_metrics.py (those of
kafka_exporter) and own_metrics.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What kind of number it is, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


class Reporter(Enum):
    """Which broker tells it. What is about the cluster has one teller, so that sums are right."""

    EACH = "each broker, about itself"
    LEADER = "the leader of the partition"
    REPLICA = "every broker with a replica"
    COORDINATOR = "the coordinator of the group"
    CONTROLLER = "the controller"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, by the name under which it is served (counters end in `_total`)."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    teller: Reporter = Reporter.EACH

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names that queries may use."""
        match self.kind:
            case Kind.HISTOGRAM:
                return tuple(f"{self.name}{suffix}" for suffix in ("_bucket", "_count", "_sum"))
            case Kind.SUMMARY:
                return (self.name, f"{self.name}_count", f"{self.name}_sum")
        return (self.name,)


def counter(name: str, help_text: str, *labels: str, teller: Reporter = Reporter.EACH) -> Metric:
    """Declare a number that only grows."""
    assert name.endswith("_total"), name
    return Metric(name, Kind.COUNTER, help_text, labels, teller)


def gauge(name: str, help_text: str, *labels: str, teller: Reporter = Reporter.EACH) -> Metric:
    """Declare a number that goes up and down."""
    return Metric(name, Kind.GAUGE, help_text, labels, teller)
