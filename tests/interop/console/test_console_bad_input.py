"""Hostile messages, lost brokers, a console that shows less."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import expect
from tests.interop.console.conftest import NewBrowser
from tests.interop.console.stage import XSS, Browser, RunningConsole, fill, shows

from ottla.client import Consumer, Producer
from ottla.client.admin import Admin
from ottla.console.messages.masking import Mask
from ottla.testing.local_broker import OttlaBroker


def test_hostile_messages_are_inert(browser: Browser) -> None:
    page = browser.open("/topics/hostile/messages?start=oldest")
    expect(page.locator("#messages tr.message")).to_have_count(8)
    for at in range(8):
        page.locator("#messages tr.message a").nth(at).click()
        expect(page.locator(".one")).to_have_count(at + 1)
    assert page.locator("main script, main img, main svg, main b:has-text('x')").count() == 0
    page = browser.open("/topics/hostile/messages?where=value%20CONTAINS%20'hacked'")
    shows(page, "6 found in 8 of 8")
    browser.open("/topics?q=%3Cscript%3Ewindow.hacked%3D1%3C/script%3E")
    shows(page, "No topic matches.")
    browser.open("/topics/%3Cimg%20src%3Dx%20onerror%3Dwindow.hacked%3D1%3E")
    expect(page.locator(".problem")).to_contain_text("There is no topic <img src=x")
    browser.open("/topics/orders/messages?text=%22%3E%3Cscript%3Ewindow.hacked%3D1%3C/script%3E")
    shows(page, "0 found")


def test_hostile_names_are_inert(browser: Browser, broker: OttlaBroker) -> None:
    for name in XSS[1:3]:
        with Consumer(broker.bootstrap_servers, group_id=name, topics="hostile", client_id=name) as consumer:
            consumer.poll(3_000)
            consumer.commit()
            page = browser.open(f"/groups/{quote(name, safe='')}")
            expect(page.locator("h1")).to_have_text(name)
            shows(page, "hostile-0")
        with Producer(broker.bootstrap_servers, transactional_id=name) as producer:
            producer.begin_transaction()
            producer.send("odd", b"x")
            page = browser.open(f"/transactions/{quote(name, safe='')}")
            expect(page.locator("h1")).to_have_text(name)
            producer.abort_transaction()
    for path in ("/groups", "/transactions", "/topics/odd/producers", "/audit"):
        browser.open(path)
        browser.check()


def test_a_hostile_tail_is_inert(browser: Browser, broker: OttlaBroker) -> None:
    page = browser.open("/topics/hostile/messages?live=true")
    shows(page, "records/s")
    with Producer(broker.bootstrap_servers) as producer:
        for text in XSS:
            producer.send("hostile", text.encode(), key=text.encode())
    expect(page.locator("#messages tr.message")).to_have_count(8)
    assert page.locator("main script, main img, main svg, main b:has-text('x')").count() == 0


def test_a_message_of_100_mb_is_cut_and_loaded(new_browser: NewBrowser) -> None:
    size = 100_000_000
    limits = {"message.max.bytes": 2 * size, "socket.request.max.bytes": 2 * size}
    with OttlaBroker(settings=limits) as broker, RunningConsole(broker.bootstrap_servers) as console:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("big")
        with Producer(broker.bootstrap_servers, max_request_size=2 * size) as producer:
            producer.send("big", b'{"filler":"' + b"x" * size + b'"}', key=b"big")
            producer.send("big", b"small", key=b"small")
        browser = new_browser(console.url)
        page = browser.open("/topics/big/messages")
        expect(page.locator("#messages tr.message")).to_have_count(2)
        page.locator("#messages tr.message", has_text="big").locator("a").click()
        cut = page.locator(".one p.muted")  # to look for texts on a page of 8 MiB takes long
        expect(cut).to_contain_text("Only the first 64.0 KiB of 95.4 MiB are shown.")
        page.get_by_role("link", name="Load 8.0 MiB").click()
        expect(cut).to_contain_text("Only the first 8.0 MiB of 95.4 MiB are shown.")
        expect(page.locator(".code .part")).to_have_count(256)  # so that only those in view are laid out
        raw = httpx.get(f"{console.url}/topics/big/messages/0/0/raw", timeout=60)
        assert len(raw.content) > size
        browser.check()


def test_masked_parts_are_not_shown_nor_found(broker: OttlaBroker, new_browser: NewBrowser) -> None:
    masks = (Mask.parse("ord*:$.id"), Mask.parse("orders:key"), Mask.parse("orders:header.trace"))
    with RunningConsole(broker.bootstrap_servers, masks=masks) as console:
        browser = new_browser(console.url)
        page = browser.open("/topics/orders/messages")
        shows(page, "Parts of these messages are masked.")
        page.locator("#messages tr.message a").first.click()
        shows(page, '"id": "••••••"')
        assert "order-0" not in page.content()
        assert "t-5" not in page.locator(".one").inner_html()
        browser.open("/topics/orders/messages?where=%24.id%20%3D%20'o-000017'")
        shows(page, "0 found in 600 of 600")
        answer = page.request.get(f"{console.url}/topics/orders/messages/0/0/raw?part=value")
        assert answer.status == 403
        browser.check()


def test_messages_can_be_switched_off(broker: OttlaBroker, new_browser: NewBrowser) -> None:
    with RunningConsole(broker.bootstrap_servers, shows_messages=False, is_read_only=True) as console:
        browser = new_browser(console.url)
        page = browser.open("/topics/orders/messages")
        shows(page, "Looking at messages is switched off.")
        browser.open("/topics/orders")
        shows(page, "This console is read-only.")
        assert page.get_by_role("link", name="Produce", exact=True).count() == 0


@pytest.fixture
def own_broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        fill(running.bootstrap_servers)
        yield running


def test_a_lost_broker_is_said_and_the_page_recovers(
    own_broker: OttlaBroker, new_browser: NewBrowser
) -> None:
    with RunningConsole(own_broker.bootstrap_servers) as console:
        browser = new_browser(console.url)
        page = browser.open("/topics")
        shows(page, "orders")
        own_broker.kill()
        expect(page.locator("#lost")).to_contain_text("No broker answers", timeout=30_000)
        browser.open("/topics/orders")
        shows(page, "503")
        own_broker.start()
        expect(page.get_by_role("heading", name="orders")).to_be_visible(timeout=30_000)
