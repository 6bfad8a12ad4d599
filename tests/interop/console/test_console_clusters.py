"""The same console on three brokers, and on Apache Kafka."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.integration.connect_stage import IdleEngine, RunningWorker
from tests.integration.registry_stage import RunningRegistry
from tests.interop.apache_kafka import JAVA, ApacheKafka
from tests.interop.console.conftest import NewBrowser
from tests.interop.console.stage import Browser, RunningConsole, fill, shows
from tests.interop.console.walks import (
    allow_and_deny,
    delete_the_acl,
    make_a_connector,
    register_a_schema,
    reset_offsets,
)
from tests.interop.fetch_jars import KAFKA_JARS

from ottla.testing.local_cluster import LocalCluster

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
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
    "/acls": "There are no ACLs",
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


@contextmanager
def console_with_services(
    bootstrap: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningConsole]:
    """A console of a cluster with a schema registry and a Connect worker beside it."""
    monkeypatch.setattr("ottla.connect.herder.task_runner.EngineSupervisor", IdleEngine)
    with (
        RunningRegistry(bootstrap) as registry,
        RunningWorker(bootstrap, folder) as connect,
        RunningConsole(bootstrap, registry.url, connect_url=connect.url) as console,
    ):
        yield console


def change_everything(browser: Browser, bootstrap: str) -> None:
    create_produce_and_search(browser)
    reset_offsets(browser, bootstrap)
    register_a_schema(browser)
    allow_and_deny(browser)
    delete_the_acl(browser)
    make_a_connector(browser)
    browser.check()


def test_three_brokers_and_a_lost_one(
    tmp_path: Path, new_browser: NewBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalCluster(3, settings=AUTHORIZER) as cluster:
        bootstrap = cluster.bootstrap_servers
        fill(bootstrap, replication=2)
        with console_with_services(bootstrap, tmp_path, monkeypatch) as console:
            browser = new_browser(console.url)
            look_at_every_page(browser)
            change_everything(browser, bootstrap)
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


def test_apache_kafka(tmp_path: Path, new_browser: NewBrowser, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    if not KAFKA_JARS.is_dir():
        pytest.skip(f"Kafka's jars are not in {KAFKA_JARS}; fetch them with: make interop")
    with ApacheKafka(tmp_path, properties=SHARE_STATE | AUTHORIZER) as kafka:
        fill(kafka.address)
        read_as_share_group(kafka.address)
        with console_with_services(kafka.address, tmp_path, monkeypatch) as console:
            browser = new_browser(console.url)
            look_at_every_page(browser)
            change_everything(browser, kafka.address)
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
