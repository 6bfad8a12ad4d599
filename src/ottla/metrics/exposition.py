"""From samples to the text that Prometheus reads. Runs in a thread: many samples take a while.

The Prometheus client is imported with this module, which is imported with the first scrape: brokers that
nobody asks start without it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import cast

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Sample

from ottla.api.support.produce_scheduler import nap
from ottla.api.support.request_times import BOUNDS_S
from ottla.metrics.catalogue import METRICS
from ottla.metrics.metric import Kind, Metric
from ottla.metrics.samples import Column, Distribution, Samples, Summary

GZIP_LEVEL = 1
SAMPLES_PER_NAP = 200
_TOTAL = "_total"
_NOWHERE = CollectorRegistry(auto_describe=False)
_PROCESS: tuple[Collector, ...] = (
    ProcessCollector(registry=_NOWHERE),
    PlatformCollector(registry=_NOWHERE),
    GCCollector(registry=_NOWHERE),
)


def render(samples: Samples, accept: str, *, zipped: bool) -> tuple[bytes, str]:
    """Return the answer to a scrape and its content type, which is OpenMetrics for those who accept that."""
    encode, content_type = choose_encoder(accept)
    body = encode(_Families(samples))
    return (gzip.compress(body, GZIP_LEVEL) if zipped else body), content_type


class _Families(Collector):
    """The samples as the Prometheus client wants them, one metric after the other."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Family]:
        for name, column in self._samples.columns.items():
            metric = METRICS[name]
            shown = name.removesuffix(_TOTAL) if metric.kind is Kind.COUNTER else name
            family = Family(shown, metric.help, metric.kind.value)
            # One after the other as they are written, never all at once: see Column.
            family.samples = cast(list[Sample], _written_out(metric, column))
            yield family
        for each in _PROCESS:
            yield from each.collect()


def _written_out(metric: Metric, column: Column) -> Iterator[Sample]:
    for number, (values, value) in enumerate(zip(column.labels, column.values, strict=True)):
        labels = dict(zip(metric.labels, values, strict=False))
        if isinstance(value, Distribution):
            yield from _histogram(metric.name, labels, value)
        elif isinstance(value, Summary):
            yield from _summary(metric.name, labels, value)
        else:
            yield Sample(metric.name, labels, value)
        if number % SAMPLES_PER_NAP == 0:
            nap()


def _histogram(name: str, labels: dict[str, str], value: Distribution) -> Iterator[Sample]:
    seen = 0
    for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), value.buckets, strict=True):
        seen += count
        yield Sample(f"{name}_bucket", {**labels, "le": bound}, seen)
    yield Sample(f"{name}_count", labels, seen)
    yield Sample(f"{name}_sum", labels, value.total)


def _summary(name: str, labels: dict[str, str], value: Summary) -> Iterator[Sample]:
    for quantile, each in value.quantiles.items():
        yield Sample(name, {**labels, "quantile": quantile}, each)
    yield Sample(f"{name}_count", labels, value.number)
    if value.total is not None:
        yield Sample(f"{name}_sum", labels, value.total)
