"""The values that one scrape collects: of every metric, with labels. Collected on the event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.metrics.metric import Metric


class Distribution(NamedTuple):
    """The value of a histogram: the count of each bucket, and the sum."""

    buckets: tuple[int, ...]
    total: float


class Summary(NamedTuple):
    """The value of a summary: the count, the sum if it is known, and the quantiles."""

    number: int
    total: float | None = None
    quantiles: Mapping[str, float] = {}


Value = float | Distribution | Summary
Labels = tuple[str, ...]


class Column(NamedTuple):
    """The values of one metric, and beside them their labels.

    Metrics of the same things share the list of labels. (A tuple for each value would be many thousands of
    objects, and a garbage collection would block the event loop for a tenth of a second.)
    """

    labels: list[Labels]
    values: list[Value]


class Samples:
    """Values by the name of their metric."""

    def __init__(self) -> None:
        self.columns: dict[str, Column] = {}

    def put(self, metric: Metric, value: Value, *labels: str) -> None:
        """Add one value."""
        column = self.columns.get(metric.name)
        if column is None:
            column = self.columns[metric.name] = Column([], [])
        column.labels.append(labels)
        column.values.append(value)

    def values(self, metric: Metric, labels: list[Labels]) -> list[Value]:
        """Return the list to append the values of a metric to, one for each of `labels`."""
        column = self.columns[metric.name] = Column(labels, [])
        return column.values
