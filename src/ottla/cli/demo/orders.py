"""A feed of orders as a shop has them: few customers buy often, most seldom; some orders are large.

The same seed gives the same orders, with the same ids and amounts; only the times are those of the run.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

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
MOST_LINES = 5


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
    """Yield orders without end."""
    chance = random.Random(seed)
    countries, weights = list(COUNTRIES), list(COUNTRIES.values())
    home = chance.choices(countries, weights, k=CUSTOMERS)
    order_id = 0
    while True:
        order_id += 1
        number = min(int(chance.paretovariate(0.6)), CUSTOMERS) - 1
        count = min(1 + int(chance.expovariate(1.0)), MOST_LINES)
        chosen = chance.sample(PRODUCTS, count)
        lines = tuple((name, 1 + int(chance.expovariate(1.5)), price) for name, price in chosen)
        yield Order(order_id, f"customer-{number + 1}", home[number], lines)
