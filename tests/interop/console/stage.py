"""A console, a registry and a broker in threads of the test, and a browser that looks at them."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, expect
from tests.integration.console_stage import CLUSTER, RunningConsole

from ottla.client import Consumer, Producer
from ottla.client.admin import Admin
from ottla.spark.pipelines.run.state import RUNNING, new_state
from ottla.spark.pipelines.run.storage import open_storage

__all__ = ["CLUSTER", "Browser", "RunningConsole", "fill", "shows", "write_pipeline_state"]
CHROMIUM = Path("/usr/bin/chromium")
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
XSS = (
    "<script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    '"><svg onload=window.hacked=1>',
    "'-window.hacked=1-'",
    "{{7*7}}${7*7}",
    "javascript:window.hacked=1",
    "</textarea><script>window.hacked=1</script>",
    "\u202e\u0000<b>x</b>",
)


class Browser:
    """A page, with what went wrong in it and which hosts it asked."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.base = base
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        self.page: Page = context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def _said(self, message: Any) -> None:
        if message.type == "error" and "status of" not in message.text:  # an answer that a test asked for
            self.problems.append(message.text)

    def open(self, path: str = "") -> Page:
        """Go to a page of the cluster."""
        self.page.goto(self.base + path)
        return self.page

    def check(self) -> None:
        """Assert that no script failed, that nothing was asked of other hosts, and that no text was run."""
        assert self.problems == []
        assert {each for each in self.hosts if each} <= {urlsplit(self.base).netloc}
        assert self.page.evaluate("window.hacked === undefined")

    def violations(self) -> list[str]:
        """Return what axe-core finds wrong with the page."""
        self.page.evaluate(AXE.read_text())  # by the debugger: the page's own policy would refuse it
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]
        ]


def shows(page: Page, text: str) -> None:
    """Wait until a text is to be seen."""
    expect(page.get_by_text(text, exact=False).first).to_be_visible()


def write_pipeline_state(root: Path, state: str = RUNNING, *, batch: int = 41, flows: int = 2) -> None:
    """Write what a driver says of a pipeline with two flows, one of which keeps state."""
    found = new_state("shop", "/srv/shop", "local[2]", time.time_ns() // 1_000_000)
    flow = {
        "flow": "revenue", "target": "revenue", "state": state, "batch": batch, "rows": 120_000 + batch,
        "batch_rows": 400, "rows_per_second": 1_730.0 + batch % 7 * 3, "batch_ms": 231 + batch % 5 * 9,
        "lag": 12 + batch % 3 * 40, "state_rows": 300 + batch,
        "restarts": 1, "error": None,
    }  # fmt: skip
    checked = {**flow, "flow": "checked", "target": "good-orders", "state_rows": 0, "restarts": 0}
    found.state, found.flows, found.dead_letters = state, [flow, checked][:flows], ["odd"]
    (root / "shop").mkdir(exist_ok=True)
    found.write(open_storage(root, "shop", root))


def fill(bootstrap: str, replication: int = 1) -> None:
    """Write topics, records and offsets to look at."""
    with Admin(bootstrap) as admin:
        for name, partitions in (("orders", 6), ("payments", 3), ("clicks", 4), ("hostile", 1), ("odd", 1)):
            admin.create_topic(name, partitions=partitions, replication_factor=replication)
    now = time.time_ns() // 1_000_000 - 10_000
    with Producer(bootstrap) as producer:
        for i in range(600):
            country = ("NO", "SE", "DE", "FR")[i % 4]
            order = {"id": f"o-{i:06}", "customer": {"country": country}, "total": i / 2, "test": i % 50 == 0}
            producer.send(
                "orders",
                json.dumps(order).encode(),
                key=f"order-{i:06}".encode(),
                headers=[("trace", b"t-%d" % i), ("source", b"web")],
                timestamp_ms=now + i,
            )
            producer.send("payments", json.dumps({"order": i, "amount": i * 1.25}).encode(), key=b"%d" % i)
            producer.send("clicks", f"GET /products/{i} {i % 9}ms".encode())
        for text in XSS:
            raw = text.encode()
            producer.send("hostile", raw, key=raw, headers=[(text, raw)])
        producer.send("odd", gzip.compress(b'{"packed": true, "to": "Oslo"}'), key=b"gz")
        producer.send("odd", bytes(range(256)), key=b"binary")
        producer.send("odd", b"x" * 300_000, key=b"large")
        producer.send("odd", None, key=b"tombstone")
    for group, topic, enough in (("billing", "orders", 200), ("warehouse", "payments", 600)):
        with Consumer(bootstrap, group_id=group, topics=topic, auto_offset_reset="earliest") as consumer:
            seen = 0
            while seen < enough:
                seen += sum(map(len, consumer.poll(1000, max_records=200).values()))
            consumer.commit()
