"""Connectors by clicking, on a real Connect worker; its engine only says that tasks run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.integration.connect_stage import IdleEngine, RunningWorker
from tests.interop.console.conftest import NewBrowser
from tests.interop.console.stage import RunningConsole, shows
from tests.interop.console.walks import make_a_connector

from ottla.testing.local_broker import OttlaBroker


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OttlaBroker, RunningWorker]]:
    monkeypatch.setattr("ottla.connect.herder.task_runner.EngineSupervisor", IdleEngine)
    with OttlaBroker() as broker, RunningWorker(broker.bootstrap_servers, tmp_path) as running:
        yield broker, running


def test_a_connector_is_made_from_its_form_paused_and_deleted(
    worker: tuple[OttlaBroker, RunningWorker], new_browser: NewBrowser
) -> None:
    broker, connect = worker
    with RunningConsole(broker.bootstrap_servers, connect_url=connect.url) as console:
        browser = new_browser(console.url)
        make_a_connector(browser)
        page = browser.page
        page.get_by_role("button", name="Resume").click()  # offered without a reload
        shows(page, "resume was asked for")
        page.get_by_role("button", name="Stop").click()
        shows(page, "stop was asked for")
        expect(page.locator("#connector-state .badge").first).to_have_text("STOPPED")
        assert browser.violations() == []
        page.get_by_role("link", name="Offsets").click()
        shows(page, "It has no offsets yet.")
        page.locator("[name=offsets]").fill('{"offsets": 1')
        page.get_by_role("button", name="Set", exact=True).click()
        shows(page, "The offsets are not JSON")
        assert browser.violations() == []
        browser.open("/connectors/made")
        page.get_by_role("link", name="Edit").click()
        shows(page, "DatagenSource")
        expect(page.locator("select[name=class]")).to_have_count(0)  # a connector keeps its class
        browser.open("/configure-connector?class=DatagenSource")
        expect(page.locator("select[name=class] option:checked")).to_contain_text("DatagenSource")
        browser.open("/connectors/made")
        page.get_by_role("button", name="Delete…").click()
        page.get_by_label("to confirm").fill("made")
        page.get_by_role("button", name="Delete", exact=True).click()
        shows(page, "Connector made is deleted.")
        expect(page.get_by_text("There are no connectors yet.")).to_be_visible(timeout=15_000)
        browser.check()
