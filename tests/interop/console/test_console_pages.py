"""Every page: it is there, axe finds nothing wrong, in light and dark, at 1280 pixels and on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.interop.console.conftest import LONG_NAME, NewBrowser
from tests.interop.console.stage import Browser, RunningConsole, shows

PHONE = 390
HIDE = """() => { Object.defineProperty(document, "hidden", {configurable: true, get: () => true});
    document.dispatchEvent(new Event("visibilitychange")); }"""
"""What a browser does with a page behind another one."""
SHOW = HIDE.replace("true});", "false});")
PAGES = {
    "": "All partitions have a leader",
    "/topics": "orders",
    "/create-topic": "cleanup.policy",
    "/topics/orders": "First offset",
    "/topics/orders/messages": "order-000599",
    "/topics/orders/messages/0/0": "Leader epoch",
    "/topics/orders/messages?where=%24.total%20%3E%20298": "found in 600 of 600",
    "/topics/orders/produce": "Headers",
    "/topics/orders/configs": "retention.ms",
    "/topics/orders/consumers": "billing",
    "/topics/orders/producers": "Producer id",
    "/topics/orders/statistics": "Analyze",
    "/topics/odd/messages": "tombstone",
    "/groups": "warehouse",
    "/groups/billing": "coordinator",
    "/groups/billing/reset": "Preview",
    "/transactions": "There are no transactional ids",
    "/hanging-transactions": "No transaction hangs",
    "/schemas": "There are no schemas yet",
    "/create-schema": "Check compatibility",
    "/connectors": "There is no Kafka Connect",
    "/pipelines": "3.5k",
    "/pipelines/shop": "Rows per second",
    "/pipelines/shop/dead-letters": "tombstone",
    "/users": "There are no users",
    "/quotas": "There are no quotas",
    "/certificates": "There are no certificates",
    "/brokers": "Elect preferred leaders",
    "/brokers/1": "log.dirs",
    "/reassignments": "No reassignment is in progress",
    "/acls": "The brokers have no authorizer",
    "/explain-acl": "Explain",
    "/tokens": "Delegation tokens",
    "/audit": "Audit log",
    "/no-such-page": "404",
}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_there_and_accessible(browser: Browser, path: str) -> None:
    page = browser.open(path)
    shows(page, PAGES[path])
    assert browser.violations() == []
    page.set_viewport_size({"width": PHONE, "height": 800})
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")  # colours change at once
    assert browser.violations() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE, "it must not scroll sideways"


def test_a_long_name_hides_no_column(browser: Browser) -> None:
    page = browser.open("/topics")
    shows(page, LONG_NAME)
    table = page.get_by_role("region", name="Topics")
    assert table.evaluate("each => each.scrollWidth <= each.clientWidth")


def test_keys_and_values_are_read_on_a_phone(console: RunningConsole, new_browser: NewBrowser) -> None:
    browser = new_browser(console.url, width=PHONE)
    page = browser.open("/topics/orders/messages?columns=%24.id")
    row = page.locator("#messages tr.message").first
    for text in ("order-000599", "o-000599"):
        box = row.get_by_text(text, exact=True).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= PHONE
    browser.open("/topics/orders/messages")
    expect(page.get_by_label("Header")).to_be_hidden()
    page.get_by_role("button", name="All filters").click()
    expect(page.get_by_label("Header")).to_be_visible()
    browser.check()


def test_the_menu_of_a_phone(console: RunningConsole, new_browser: NewBrowser) -> None:
    browser = new_browser(console.url, width=PHONE, scheme="dark")
    page = browser.open()
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Brokers").click()
    shows(page, "Elect preferred leaders")
    browser.check()


def test_the_theme_is_kept(browser: Browser) -> None:
    page = browser.open()
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_many_tabs_do_not_use_up_the_connections_to_the_console(
    console: RunningConsole, new_browser: NewBrowser
) -> None:
    browser = new_browser(console.url)
    for _ in range(6):  # as many as browsers open to a host
        tab = browser.page.context.new_page()
        tab.goto(f"{console.url}/topics/clicks/messages?live=true")
        expect(tab.locator("#tail-text")).to_contain_text("records/s")
        tab.evaluate(HIDE)
    page = browser.open("/topics/clicks/messages?live=true")
    shows(page, "records/s")
    tab.evaluate(SHOW)
    expect(tab.locator("#tail-text")).to_contain_text("records/s")
    browser.check()


def test_keys_lead_to_pages_and_fields(browser: Browser) -> None:
    page = browser.open()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.keyboard.press("/")
    page.keyboard.type("paym")
    shows(page, "1 topic")
    page.wait_for_url("**q=paym**")
    page.keyboard.type("ents")
    page.wait_for_url("**q=payments**")
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("paym")  # a whole page again
    shows(page, "Audit log")
    page.keyboard.press("?")
    shows(page, "Find on this page")


def test_every_answer_has_the_security_headers(console: RunningConsole, browser: Browser) -> None:
    answer = browser.page.goto(console.url)
    assert answer is not None
    headers = answer.headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
