"""The same console on three brokers, and on Apache Kafka."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.interop.apache_kafka import JAVA, ApacheKafka
from tests.interop.console.conftest import NewBrowser
from tests.interop.console.stage import Browser, RunningConsole, fill, shows
from tests.interop.fetch_jars import KAFKA_JARS

from ottla.testing.local_cluster import LocalCluster

CONSOLE_TOOLS = "org.apache.kafka.tools.consumer"
SHARE_STATE = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
PAGES = {
    "": "Busiest topics",
    "/topics": "orders",
    "/create-topic": "cleanup.policy",
    "/topics/orders": "First offset",
    "/topics/orders/messages": "order-000599",
    "/topics/orders/configs": "retention.ms",
    "/topics/orders/consumers": "billing",
    "/topics/orders/producers": "Producer id",
    "/groups": "warehouse",
    "/groups/billing": "coordinator",
    "/transactions": "There are no transactional ids",
    "/hanging-transactions": "No transaction hangs",
    "/brokers": "Elect preferred leaders",
    "/brokers/1": "log.dirs",
    "/reassignments": "No reassignment is in progress",
    "/acls": "The brokers have no authorizer",
    "/users": "There are no users",
    "/quotas": "There are no quotas",
}


def look_at_every_page(browser: Browser) -> None:
    for path, text in PAGES.items():
        page = browser.open(path)
        shows(page, text)
    browser.check()


def create_produce_and_search(browser: Browser) -> None:
    page = browser.open("/create-topic")
    page.locator("[name=name]").fill("made-here")
    page.get_by_role("button", name="Create").click()
    shows(page, "Topic made-here is created.")
    browser.open("/topics/made-here/produce")
    page.locator("[name=value]").fill('{"total": 7}')
    page.get_by_role("button", name="Produce").click()
    shows(page, "Stored in partition")
    browser.open("/topics/orders/messages?where=%24.total%20%3E%20298")
    shows(page, "3 found in 600 of 600")
    browser.check()


def test_three_brokers_and_a_lost_one(new_browser: NewBrowser) -> None:
    with LocalCluster(3) as cluster:
        fill(cluster.bootstrap_servers, replication=2)
        with RunningConsole(cluster.bootstrap_servers) as console:
            browser = new_browser(console.url)
            look_at_every_page(browser)
            create_produce_and_search(browser)
            page = browser.open("/reassignments?topic=orders")
            page.locator("[name=replication]").fill("3")
            page.get_by_role("button", name="Preview").click()
            page.get_by_role("button", name="Move 6 partitions").click()
            shows(page, "6 partitions are on the way.")
            shows(page, "No reassignment is in progress")
            browser.open("/topics/orders")
            shows(page, "3 replicas")
            cluster.kill(3)
            browser.open()
            expect(page.locator(".health")).to_be_visible()
            page.wait_for_function(
                "() => { if (document.body.innerText.includes('Broker 3 is not in the cluster')) return true;"
                " setTimeout(() => location.reload(), 500); return false; }",
                polling=2_000,
                timeout=60_000,
            )


def test_apache_kafka(tmp_path: Path, new_browser: NewBrowser) -> None:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    if not KAFKA_JARS.is_dir():
        pytest.skip(f"Kafka's jars are not in {KAFKA_JARS}; fetch them with: make interop")
    with ApacheKafka(tmp_path, properties=SHARE_STATE) as kafka:
        fill(kafka.address)
        read_as_share_group(kafka.address)
        with RunningConsole(kafka.address) as console:
            browser = new_browser(console.url)
            look_at_every_page(browser)
            create_produce_and_search(browser)
            page = browser.open("/groups?type=share")
            page.get_by_role("link", name="sharers").click()
            shows(page, "Finished up to")
            shows(page, "share protocol")
            expect(page.get_by_role("link", name="Reset offsets")).to_have_count(0)
            browser.check()


def read_as_share_group(address: str) -> None:
    """Read all payments with Kafka's own share consumer; it has ended when this returns."""
    arguments = ["--bootstrap-server", address, "--topic", "payments", "--group", "sharers"]
    tool = [*JAVA, "-cp", f"{KAFKA_JARS}/*"]
    earliest = ["--alter", "--group", "sharers", "--add-config", "share.auto.offset.reset=earliest"]
    subprocess.run(
        [*tool, "kafka.admin.ConfigCommand", "--bootstrap-server", address, *earliest],
        check=True,
        capture_output=True,
    )
    subprocess.run(
        [*tool, f"{CONSOLE_TOOLS}.ConsoleShareConsumer", *arguments, "--max-messages", "600"],
        check=True,
        capture_output=True,
        timeout=120,
    )
