"""Answers a scrape of a service's `/metrics`, in Prometheus' text format or in OpenMetrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla.http.app import Request, Response

Sample = tuple[dict[str, str], float]
"""Labels and value."""


def metrics_response(
    request: Request, metrics: Mapping[str, str], samples: Iterable[tuple[str, Sequence[Sample]]]
) -> Response:
    """Encode samples by metric; `metrics` has the help texts. A name that ends in `_total` is a counter."""
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.registry import Collector

    families = []
    for name, values in samples:
        kind = "counter" if name.endswith("_total") else "gauge"
        family = Family(name.removesuffix("_total"), metrics[name], kind)
        for labels, value in values:
            family.add_sample(name, labels, value)
        families.append(family)

    class Families(Collector):
        def collect(self) -> Iterator[Family]:
            yield from families

    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(Families()), content_type=content_type)
