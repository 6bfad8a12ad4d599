"""Encode samples in the Prometheus text format. Runs in a thread: many samples take a while.

The Prometheus client is imported with this module, which is imported by the first scrape: brokers that are
not scraped start without it.
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

from ottla.api.support.request_times import BOUNDS_S
from ottla.common.yielding import yield_to_loop
from ottla.metrics.catalogue import METRICS
from ottla.metrics.metric import Kind, Metric
from ottla.metrics.samples import Column, Distribution, Samples, Summary

GZIP_LEVEL = 1
SAMPLES_PER_YIELD = 200
_TOTAL = "_total"
_UNUSED_REGISTRY = CollectorRegistry(auto_describe=False)
_PROCESS: tuple[Collector, ...] = (
    ProcessCollector(registry=_UNUSED_REGISTRY),
    PlatformCollector(registry=_UNUSED_REGISTRY),
    GCCollector(registry=_UNUSED_REGISTRY),
)


def render(samples: Samples, accept: str, *, zipped: bool) -> tuple[bytes, str]:
    """Return the body of a scrape and its content type: OpenMetrics if the client accepts it."""
    encode, content_type = choose_encoder(accept)
    body = encode(_Families(samples))
    return (gzip.compress(body, GZIP_LEVEL) if zipped else body), content_type


class _Families(Collector):
    """The samples as the Prometheus client expects them, one metric after the other."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Family]:
        for name, column in self._samples.columns.items():
            metric = METRICS[name]
            shown = name.removesuffix(_TOTAL) if metric.kind is Kind.COUNTER else name
            family = Family(shown, metric.help, metric.kind.value)
            # A generator, so that they never exist all at once: see Column.
            family.samples = cast(list[Sample], _samples(metric, column))
            yield family
        for each in _PROCESS:
            yield from each.collect()


def _samples(metric: Metric, column: Column) -> Iterator[Sample]:
    for number, (values, value) in enumerate(zip(column.labels, column.values, strict=True)):
        labels = dict(zip(metric.labels, values, strict=False))
        if isinstance(value, Distribution):
            yield from _histogram(metric.name, labels, value)
        elif isinstance(value, Summary):
            yield from _summary(metric.name, labels, value)
        else:
            yield Sample(metric.name, labels, value)
        if number % SAMPLES_PER_YIELD == 0:
            yield_to_loop()


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
