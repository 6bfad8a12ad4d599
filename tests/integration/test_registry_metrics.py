"""The registry's metrics and probes."""

from __future__ import annotations

from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from tests.integration.registry_stage import RunningRegistry

from ottla.registry.rest.metrics import METRICS
from ottla.testing.local_broker import OttlaBroker


def scraped(url: str) -> dict[tuple[str, tuple[str, ...]], float]:
    with urlopen(url + "/metrics", timeout=10) as response:
        text = response.read().decode()
    return {
        (sample.name, tuple(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_requests_schemas_and_lag_are_counted() -> None:
    with OttlaBroker() as broker, RunningRegistry(broker.bootstrap_servers) as registry:
        for subject in ("a", "b"):
            registry.ask("POST", f"/subjects/{subject}/versions", {"schema": '"string"'})
        registry.ask("DELETE", "/subjects/b")
        for _ in range(3):
            assert registry.ask("GET", "/schemas/ids/1").status == 200
        registry.ask("GET", "/subjects/none/versions")
        registry.ask("GET", "/nowhere")
        found = scraped(registry.url)
        requests = "ottla_registry_requests_total"
        assert found[requests, ("POST", "/subjects/{subject}/versions", "200")] == 2
        assert found[requests, ("GET", "/schemas/ids/{id}", "200")] == 3
        assert found[requests, ("GET", "/subjects/{subject}/versions", "404")] == 1
        assert found[requests, ("GET", "none", "404")] == 1
        assert found["ottla_registry_subjects", ()] == 2
        assert found["ottla_registry_schemas", ("false",)] == 1
        assert found["ottla_registry_schemas", ("true",)] == 1
        assert found["ottla_registry_lag_records", ()] == 0
        assert found["ottla_registry_conflicts_total", ()] == 0
        assert {name for name, _ in found} == set(METRICS)
        assert registry.ask("GET", "/healthz").body == {"status": "ok"}
        assert registry.ask("GET", "/readyz").body == {"status": "ready", "lag": 0}
        broker.stop()
        assert registry.ask("GET", "/readyz").status == 503
        assert registry.ask("GET", "/healthz").status == 200
        assert scraped(registry.url)["ottla_registry_ready", ()] == 0
