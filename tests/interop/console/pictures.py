"""Takes the pictures of docs/console/: every page, in light and dark, of a console with something to show.

python -m tests.interop.console.pictures
"""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from tests.integration.registry_stage import RunningRegistry
from tests.interop.console.stage import CHROMIUM, RunningConsole, fill

from ottla.client import Producer
from ottla.testing.local_cluster import LocalCluster

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "console"
SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
PAGES = {
    "overview": "",
    "topics": "/topics",
    "create-topic": "/create-topic",
    "topic": "/topics/orders",
    "configs": "/topics/orders/configs",
    "messages": "/topics/orders/messages",
    "search": "/topics/orders/messages?where=%24.total%20%3E%20250%20AND%20%24.customer.country%20%3D%20'NO'",
    "message": "/topics/orders/messages/0/3",
    "produce": "/topics/orders/produce",
    "groups": "/groups",
    "group": "/groups/billing",
    "reset": "/groups/billing/reset",
    "transactions": "/transactions",
    "schemas": "/schemas",
    "schema": "/schemas/orders-value",
    "connectors": "/connectors",
    "pipelines": "/pipelines",
    "brokers": "/brokers",
    "broker": "/brokers/1",
    "reassignments": "/reassignments",
    "users": "/users",
    "acls": "/acls",
    "quotas": "/quotas",
    "tokens": "/tokens",
    "audit": "/audit",
}
WARM_UP_S = 15
KEPT_AS_PNG = os.environ.get("CONSOLE_PICTURES", "")
"""A folder for the same pictures as PNG files, to look at."""
AS_WEBP = """async (text) => {
    const picture = new Image();
    picture.src = "data:image/png;base64," + text;
    await picture.decode();
    const canvas = document.createElement("canvas");
    canvas.width = picture.width;
    canvas.height = picture.height;
    canvas.getContext("2d").drawImage(picture, 0, 0);
    return canvas.toDataURL("image/webp", 0.82);
}"""


def main() -> None:
    """Run brokers, registry and console for a while, then look at every page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with LocalCluster(3) as cluster, RunningRegistry(cluster.bootstrap_servers) as registry:
        fill(cluster.bootstrap_servers, replication=3)
        for fields in (1, 2):
            more = [{"name": "total", "type": "double", "default": 0.0}][: fields - 1]
            schema = {**SCHEMA, "fields": [*SCHEMA["fields"], *more]}  # type: ignore[misc]
            registry.ask("POST", "/subjects/orders-value/versions", {"schema": json.dumps(schema)})
        with RunningConsole(cluster.bootstrap_servers, registry.url, sample_every_s=1.0) as console:
            stopped = threading.Event()
            writer = threading.Thread(target=_write, args=(cluster.bootstrap_servers, stopped))
            writer.start()
            try:
                time.sleep(WARM_UP_S)
                _take(console.url)
            finally:
                stopped.set()
                writer.join()


def _write(bootstrap: str, stopped: threading.Event) -> None:
    with Producer(bootstrap) as producer:
        at = 0
        while not stopped.wait(0.05):
            for _ in range(20 + (at // 60) % 3 * 15):
                producer.send("clicks", b"GET /products/%d" % at, key=b"session-%d" % (at % 50))
                at += 1
            producer.send("payments", b'{"order": %d, "amount": 1.25}' % at, key=b"%d" % at)


def _take(base: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": 1280, "height": 800},
                color_scheme=scheme,  # type: ignore[arg-type]
            )
            page = context.new_page()
            for name, path in PAGES.items():
                _one(page, base + path, FOLDER / f"{name}-{scheme}.webp")
            context.close()
        browser.close()


def _one(page: Page, url: str, file: Path) -> None:
    page.goto(url)
    page.wait_for_timeout(600)  # plots are drawn, searches have ended
    taken = page.screenshot()
    if KEPT_AS_PNG:
        Path(KEPT_AS_PNG, file.with_suffix(".png").name).write_bytes(taken)
    encoder = page.context.new_page()
    text = encoder.evaluate(AS_WEBP, base64.b64encode(taken).decode())
    encoder.close()
    file.write_bytes(base64.b64decode(text.partition(",")[2]))


if __name__ == "__main__":
    main()
