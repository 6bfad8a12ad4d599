"""Counts the requests of a service, and answers a scrape of its `/metrics`.

Requests are counted by the path with the names of its parameters, so that the number of series is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla.http.app import Request, Response

Sample = tuple[dict[str, str], float]
"""Labels and value."""


class RequestCounts:
    """Counts requests and their time: `PREFIX_requests_total`, `PREFIX_request_seconds_total`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[tuple[str, str], float] = {}

    def help(self) -> dict[str, str]:
        """Return the help texts."""
        return {
            f"{self._prefix}_requests_total": "Requests answered, by method, path and status.",
            f"{self._prefix}_request_seconds_total": "Time spent on them.",
        }

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests[method, path, status] += 1
        self._seconds[method, path] = self._seconds.get((method, path), 0.0) + seconds

    def samples(
        self, more: Mapping[tuple[str, str, int], int] | None = None
    ) -> Iterator[tuple[str, list[Sample]]]:
        """Yield both metrics; `more` are requests that were counted elsewhere."""
        requests = self._requests + Counter(more or {})
        yield (
            f"{self._prefix}_requests_total",
            [
                ({"method": method, "path": path, "status": str(status)}, count)
                for (method, path, status), count in requests.items()
            ],
        )
        yield (
            f"{self._prefix}_request_seconds_total",
            [({"method": method, "path": path}, value) for (method, path), value in self._seconds.items()],
        )


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
