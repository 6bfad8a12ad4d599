"""The state of a demo run: the feed of orders, the progress of the pipeline, and its results."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
import urllib.request
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.client.admin.groups import Groups
from ottla.client.admin.lag import measure
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions
from ottla.client.errors import ClientError
from ottla.client.offsets import offset_ranges
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError

# The feed: few customers buy often, most seldom. A seed gives the same orders and amounts; only times differ.

COUNTRIES = {"DE": 24, "FR": 18, "CZ": 14, "PL": 12, "IT": 10, "ES": 9, "NL": 7, "AT": 6}
PRODUCTS = (
    ("coffee", 1_490),
    ("tea", 890),
    ("mug", 1_250),
    ("grinder", 8_900),
    ("kettle", 4_990),
    ("filter papers", 450),
    ("espresso machine", 64_900),
    ("chocolate", 390),
)
CUSTOMERS = 2_000
MAX_LINES = 5


class Order(NamedTuple):
    """One order; amounts are whole cents, so that sums are exact."""

    order_id: int
    customer: str
    country: str
    lines: tuple[tuple[str, int, int], ...]
    """Product, quantity, price of one in cents."""

    @property
    def cents(self) -> int:
        """What it costs."""
        return sum(quantity * price for _, quantity, price in self.lines)

    def as_json(self, placed_at_ms: int) -> bytes:
        """Return the order as the value of a record."""
        fields: dict[str, Any] = {
            "order_id": self.order_id,
            "customer": self.customer,
            "country": self.country,
            "cents": self.cents,
            "lines": [{"product": name, "quantity": n, "cents": price} for name, n, price in self.lines],
            "placed_at": placed_at_ms,
        }
        return json.dumps(fields, separators=(",", ":")).encode()


def orders(seed: int) -> Iterator[Order]:
    """Yield an endless stream of orders."""
    chance = random.Random(seed)
    countries, weights = list(COUNTRIES), list(COUNTRIES.values())
    home = chance.choices(countries, weights, k=CUSTOMERS)
    order_id = 0
    while True:
        order_id += 1
        number = min(int(chance.paretovariate(0.6)), CUSTOMERS) - 1
        count = min(1 + int(chance.expovariate(1.0)), MAX_LINES)
        chosen = chance.sample(PRODUCTS, count)
        lines = tuple((name, 1 + int(chance.expovariate(1.5)), price) for name, price in chosen)
        yield Order(order_id, f"customer-{number + 1}", home[number], lines)


ORDER_SCHEMA = {
    "type": "object",
    "title": "Order",
    "properties": {
        "order_id": {"type": "integer"},
        "customer": {"type": "string"},
        "country": {"type": "string"},
        "cents": {"type": "integer"},
        "lines": {"type": "array"},
        "placed_at": {"type": "integer", "description": "milliseconds since 1970"},
    },
    "required": ["order_id", "country", "cents"],
}


def register_schema(registry: str, names: Names) -> None:
    """Register the schema of the orders, so that the registry has something to show."""
    body = json.dumps({"schemaType": "JSON", "schema": json.dumps(ORDER_SCHEMA)}).encode()
    url = f"{registry}/subjects/{names.orders}-value/versions"
    asked = urllib.request.Request(url, body, {"content-type": "application/json"})
    with suppress(OSError), urllib.request.urlopen(asked, timeout=10):
        pass  # the demo works without it


# The names of a run's topics and group.


class Names(NamedTuple):
    """The pipeline, its topics, and the group that shows its lag."""

    pipeline: str
    orders: str
    results: str
    group: str


def free_names(taken: Container[str]) -> Names:
    """Return names whose topics do not exist yet: those of an earlier demo remain."""
    for number in itertools.count(1):
        suffix = "" if number == 1 else f"-{number}"
        names = Names(f"demo{suffix}", f"demo-orders{suffix}", f"demo-sales{suffix}", f"demo{suffix}.sales")
        if names.orders not in taken and names.results not in taken:
            return names
    raise AssertionError("there is always another number")


POLL_INTERVAL_S = 1.0
TIMEOUT_MS = 500


@dataclass(slots=True)
class Total:
    """The result of one country."""

    orders: int
    cents: int


@dataclass(slots=True)
class DemoState:
    """Everything that is shown."""

    names: Names
    address: str
    is_own_broker: bool
    pipeline: str
    services: Mapping[str, str] = field(default_factory=dict)
    """The URLs of the demo's own registry and console."""
    began: float = field(default_factory=time.monotonic)
    sent: int = 0
    sent_cents: int = 0
    results: int = 0
    sent_per_s: float = 0.0
    results_per_s: float = 0.0
    lag_records: int | None = None
    lag_seconds: float | None = None
    totals: dict[str, Total] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self.began

    @property
    def counted(self) -> int:
        """How many orders the pipeline has counted."""
        return sum(each.orders for each in self.totals.values())

    @property
    def counted_cents(self) -> int:
        """The sum of the counted orders."""
        return sum(each.cents for each in self.totals.values())

    @property
    def is_complete(self) -> bool:
        """Whether every order was counted, exactly once."""
        return (self.counted, self.counted_cents) == (self.sent, self.sent_cents)

    def apply_result(self, value: bytes | None) -> None:
        """Apply a record of the results."""
        found = json.loads(value or b"{}")
        self.results += 1
        self.totals[found["country"]] = Total(int(found["orders"]), int(found["cents"]))


async def follow_results(cluster: Cluster, state: DemoState) -> None:
    """Follow the topic of results, until cancelled."""
    partition = TopicPartition(state.names.results, 0)
    async with AsyncConsumer.on(cluster, ConsumerOptions(auto_offset_reset="earliest")) as consumer:
        consumer.assign([partition])
        while True:
            fetched = await consumer.getmany(timeout_ms=TIMEOUT_MS)
            for record in fetched.get(partition, ()):
                state.apply_result(record.value)


async def follow_progress(cluster: Cluster, state: DemoState) -> None:
    """Update rates and lag, until cancelled."""
    sent, results, at = state.sent, state.results, time.monotonic()
    while True:
        await asyncio.sleep(POLL_INTERVAL_S)
        now = time.monotonic()
        state.sent_per_s = (state.sent - sent) / (now - at)
        state.results_per_s = (state.results - results) / (now - at)
        sent, results, at = state.sent, state.results, now
        try:
            await measure_lag(cluster, state)
        except (ClientError, KafkaError):
            continue  # the group has no offsets yet, or the broker is busy: try again


async def measure_lag(cluster: Cluster, state: DemoState) -> None:
    """Measure the lag of the pipeline's group, in records and in seconds."""
    topic = await cluster.topic(state.names.orders)
    partitions = [TopicPartition(topic.name, index) for index in topic.partitions]
    committed = await Groups(cluster).committed(state.names.group)
    if not committed:
        ranges = await offset_ranges(cluster, partitions)
        state.lag_records = sum(end - start for start, end in ranges.values())
        return
    wanted = {each: committed[each].offset if each in committed else 0 for each in partitions}
    found = await measure(cluster, wanted, int(time.time() * 1000))
    lags = [each.lag for each in found.values() if each.lag is not None]
    state.lag_records = sum(each.records for each in lags)
    state.lag_seconds = max((each.seconds or 0.0 for each in lags), default=0.0)
