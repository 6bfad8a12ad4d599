"""Takes the pictures of docs/console/: every page, in light and dark, of a console with something to show.

python -m tests.interop.console.pictures
"""

from __future__ import annotations

import base64
import json
import os
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from playwright.sync_api import Page, sync_playwright
from tests.integration.connect_stage import IdleEngine, RunningWorker
from tests.integration.registry_stage import RunningRegistry
from tests.interop.console.stage import CHROMIUM, RunningConsole, fill, write_pipeline_state
from tests.interop.console.test_console_clusters import AUTHORIZER
from tests.waiting import wait_until

from ottla.client import Producer
from ottla.client.admin import Acl, Admin
from ottla.connect.herder import task_runner
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
    "statistics": "/topics/orders/statistics",
    "groups": "/groups",
    "group": "/groups/billing",
    "reset": "/groups/billing/reset",
    "transactions": "/transactions",
    "schemas": "/schemas",
    "schema": "/schemas/orders-value",
    "connectors": "/connectors",
    "connector": "/connectors/clicks",
    "pipelines": "/pipelines",
    "pipeline": "/pipelines/shop",
    "brokers": "/brokers",
    "broker": "/brokers/1",
    "reassignments": "/reassignments",
    "users": "/users",
    "acls": "/acls",
    "quotas": "/quotas",
    "tokens": "/tokens",
    "audit": "/audit",
}
SAMPLES = 15
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
    """Run brokers and services for a while, then look at every page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    task_runner.EngineSupervisor = IdleEngine  # type: ignore[misc,assignment]
    with (
        TemporaryDirectory() as name,
        LocalCluster(3, settings=AUTHORIZER) as cluster,
        RunningRegistry(cluster.bootstrap_servers) as registry,
        RunningWorker(cluster.bootstrap_servers, Path(name)) as connect,
        Producer(
            cluster.bootstrap_servers, transactional_id="billing-1", transaction_timeout_ms=600_000
        ) as payer,
    ):
        bootstrap, root = cluster.bootstrap_servers, Path(name)
        fill(bootstrap, replication=3)
        _furnish(bootstrap, registry, connect)
        write_pipeline_state(root)
        payer.begin_transaction()
        payer.send("payments", b"{}")
        with RunningConsole(
            bootstrap, registry.url, connect_url=connect.url, pipelines=root, sample_every_s=1.0
        ) as console:
            stopped = threading.Event()
            writer = threading.Thread(target=_write, args=(bootstrap, root, stopped))
            writer.start()
            try:
                wait_until(lambda: _samples(console) >= SAMPLES, "the plots to have samples", 300)
                _take(console.url)
            finally:
                stopped.set()
                writer.join()
        payer.abort_transaction()


def _samples(console: RunningConsole) -> int:
    series = "records|lag|topic.orders.records|broker.1.bytes|group.billing.seconds"
    with console.api() as api:
        values = api.get("/history", params={"series": series, "hours": "1"}).json()["values"]
    return min(sum(each is not None for each in found) for found in values)


def _furnish(bootstrap: str, registry: RunningRegistry, connect: RunningWorker) -> None:
    """Register schemas, users, ACLs, quotas and a connector."""
    for fields in (1, 2):
        more = [{"name": "total", "type": "double", "default": 0.0}][: fields - 1]
        schema = {**SCHEMA, "fields": [*SCHEMA["fields"], *more]}  # type: ignore[misc]
        registry.ask("POST", "/subjects/orders-value/versions", {"schema": json.dumps(schema)})
    with Admin(bootstrap) as admin:
        for user in ("alice", "billing"):
            admin.set_scram_password(user, f"{user}-secret")
        admin.create_acls(
            [
                Acl("User:billing", "read", "topic", "orders"),
                Acl("User:billing", "read", "group", "billing", "prefixed"),
                Acl("User:alice", "all", "topic", "*"),
                Acl("User:alice", "delete", "topic", "payments", permission="deny"),
            ]
        )
        admin.alter_quotas({"user": "billing"}, set_to={"producer_byte_rate": 1_048_576.0})
    config = {
        "connector.class": "DatagenSource",
        "topic": "clicks",
        "template": "pageviews",
        "tasks.max": "1",
    }
    httpx.put(f"{connect.url}/connectors/clicks/config", json=config).raise_for_status()


def _write(bootstrap: str, root: Path, stopped: threading.Event) -> None:
    with Producer(bootstrap) as producer:
        at = 0
        while not stopped.wait(0.05):
            for _ in range(20 + (at // 60) % 3 * 15):
                producer.send("clicks", b"GET /products/%d" % at, key=b"session-%d" % (at % 50))
                at += 1
            producer.send("payments", b'{"order": %d, "amount": 1.25}' % at, key=b"%d" % at)
            if at % 9 == 0:
                write_pipeline_state(root, batch=at // 60)


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
    if page.locator("#scan-start").count():
        page.locator("#scan-start").click()
    page.wait_for_timeout(600)  # searches have ended
    for canvas in page.locator(".plot .canvas").all():
        canvas.locator("canvas").wait_for()
    taken = page.screenshot()
    if KEPT_AS_PNG:
        Path(KEPT_AS_PNG, file.with_suffix(".png").name).write_bytes(taken)
    encoder = page.context.new_page()
    text = encoder.evaluate(AS_WEBP, base64.b64encode(taken).decode())
    encoder.close()
    file.write_bytes(base64.b64decode(text.partition(",")[2]))


if __name__ == "__main__":
    main()
