"""A source of made-up records, for demos and tests: the same number always gives the same record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from ottla.common.clock import SystemClock
from ottla.connect.config.keys import HIGH, INT, LONG, LOW, ConfigKey, at_least
from ottla.connect.data import schema as s
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema
from ottla.connect.errors import ConnectError
from ottla.connect.sdk import Offsets, SourceConnector, SourceReader, partition_of

MAX_BATCH = 100_000
ITEMS = ("apple", "bread", "cheese", "dates", "eggs", "figs", "grapes", "honey")
CITIES = ("Ljubljana", "Prague", "Vienna", "Brno", "Trieste", "Zagreb")
PAGES = ("/", "/shop", "/cart", "/help", "/about")
TEMPLATES = ("orders", "users", "pageviews")
TEXT = Schema(s.STRING)


class DatagenSource(SourceConnector):
    """Generates test data: orders, users or page views."""

    keys = (
        ConfigKey("topic", doc="The topic to write to.", importance=HIGH),
        ConfigKey(
            "template", default="orders", doc="The kind of test data.", importance=HIGH, values=TEMPLATES
        ),
        ConfigKey(
            "rate", LONG, 10, "Records per second of each task; 0: as fast as possible.", check=at_least(0)
        ),
        ConfigKey("iterations", LONG, -1, "Records of each task; -1: unlimited."),
        ConfigKey("keys", INT, 1000, "Number of distinct keys.", LOW, at_least(1)),
    )
    position_keys = ("topic", "task.number")

    def task_configs(self, most: int) -> list[dict[str, str]]:
        """Return as many tasks as there may be; their records have different numbers."""
        return [{**self.config, "task.number": str(number)} for number in range(most)]

    def reader(self, task: Mapping[str, str]) -> SourceReader:
        """Return the reader."""
        chosen = self.settings
        return DatagenReader(
            chosen["topic"],
            chosen["template"],
            chosen["rate"],
            chosen["iterations"],
            chosen["keys"],
            int(task.get("task.number", "0")),
        )

    def topics(self) -> list[str]:
        """Return the topic."""
        return [self.settings["topic"]]

    def check_offsets(self, offsets: Offsets) -> None:
        """Check that an offset has a count."""
        for offset in offsets.values():
            if not isinstance(offset.get("count"), int) or offset["count"] < 0:
                raise ConnectError('an offset of this connector is {"count": NUMBER}')


class DatagenReader(SourceReader):
    """Counts up at a rate."""

    def __init__(self, topic: str, template: str, rate: int, iterations: int, keys: int, task: int) -> None:
        self.topic, self.template, self.rate = topic, template, rate
        self.iterations, self.keys, self.task = iterations, keys, task
        self.partition = partition_of(task=task)
        self._begun: tuple[int, int] | None = None

    def initial(self, stored: Offsets) -> Offsets:
        """Return the number of the next record."""
        return {self.partition: stored.get(self.partition, {"count": 0})}

    def latest(self, start: Offsets) -> Offsets:
        """Return the number that is due by now."""
        count = start[self.partition]["count"]
        now_ms = SystemClock().mono_ms()
        if self._begun is None:
            self._begun = (count, now_ms)
        due = count + MAX_BATCH
        if self.rate:
            due = min(due, self._begun[0] + (now_ms - self._begun[1]) * self.rate // 1000)
        if self.iterations >= 0:
            due = min(due, self.iterations)
        return {self.partition: {"count": max(count, due)}}

    def plan(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """Return one part."""
        return [(start[self.partition]["count"], end[self.partition]["count"])]

    def read(self, part: Any) -> Iterator[Record]:
        """Yield the records of some numbers."""
        for number in range(*part):
            yield self.record(number)

    def record(self, number: int) -> Record:
        """Return a record."""
        bits = int.from_bytes(blake2b(f"{self.task}/{number}".encode(), digest_size=8).digest(), "big")
        key, fields, schema = _MAKERS[self.template](bits % self.keys, number, bits >> 16)
        return Record(self.topic, fields, schema, key, TEXT)


_ORDER = s.struct(
    {
        "order_id": Schema(s.INT64),
        "customer": TEXT,
        "item": TEXT,
        "quantity": Schema(s.INT32),
        "price": Schema(s.FLOAT64),
    },
    "ottla.datagen.Order",
)
_USER = s.struct({"user_id": TEXT, "city": TEXT, "age": Schema(s.INT32)}, "ottla.datagen.User")
_VIEW = s.struct({"view_id": Schema(s.INT64), "user_id": TEXT, "page": TEXT}, "ottla.datagen.PageView")


def _order(key: int, number: int, bits: int) -> tuple[str, dict[str, Any], Schema]:
    customer = f"customer-{key}"
    fields = {
        "order_id": number,
        "customer": customer,
        "item": ITEMS[bits % len(ITEMS)],
        "quantity": 1 + (bits >> 8) % 9,
        "price": ((bits >> 16) % 10_000) / 100,
    }
    return customer, fields, _ORDER


def _user(key: int, number: int, bits: int) -> tuple[str, dict[str, Any], Schema]:
    user = f"user-{key}"
    return user, {"user_id": user, "city": CITIES[bits % len(CITIES)], "age": 18 + (bits >> 8) % 60}, _USER


def _view(key: int, number: int, bits: int) -> tuple[str, dict[str, Any], Schema]:
    user = f"user-{key}"
    return user, {"view_id": number, "user_id": user, "page": PAGES[bits % len(PAGES)]}, _VIEW


_MAKERS = {"orders": _order, "users": _user, "pageviews": _view}
