"""Asks a broker for its metrics, as Prometheus does, and reads the answer with the Prometheus client."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from ottla.common.listeners import Address

WITHIN_S = 20.0


class Scrape(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """Every sample of one answer."""

    def value(self, name: str, **labels: str) -> float:
        """Return a sample with exactly these labels."""
        return self[name, frozenset(labels.items())]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of all samples that have at least these labels."""
        return sum(value for (each, found), value in self.items() if each == name and labels.items() <= found)

    def has(self, name: str, **labels: str) -> bool:
        """Return whether there is such a sample."""
        return (name, frozenset(labels.items())) in self

    @property
    def names(self) -> set[str]:
        """All names of samples."""
        return {name for name, _ in self}


def get(address: Address | str, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers of an answer."""
    asked = urllib.request.Request(f"http://{address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, answer.read(), {key.lower(): value for key, value in answer.headers.items()}
    except urllib.error.HTTPError as error:
        return error.code, error.read(), {key.lower(): value for key, value in error.headers.items()}


def get_json(address: Address | str, path: str) -> tuple[int, Any]:
    """Return status and JSON of an answer."""
    status, body, _ = get(address, path)
    return status, json.loads(body)


def scrape(address: Address | str) -> Scrape:
    """Return all samples."""
    status, body, _ = get(address, "/metrics")
    assert status == 200, body
    return Scrape(
        {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
        }
    )


def scrape_until(address: Address | str, is_as_wanted: Callable[[Scrape], bool]) -> Scrape:
    """Scrape until the samples are as wanted, for a while; return the last ones."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        found = scrape(address)
        if is_as_wanted(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
