"""What people do, by clicking: create, produce, browse, filter, reset, register, delete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.interop.console.conftest import NewBrowser
from tests.interop.console.stage import Browser, RunningConsole, shows, write_pipeline_state
from tests.interop.console.walks import register_a_schema, reset_offsets

from ottla.client import Consumer, Producer
from ottla.client.admin import Admin
from ottla.client.errors import ClientError
from ottla.protocol.errors import KafkaError
from ottla.spark.pipelines.run.state import PAUSED, STARTING, STOPPED
from ottla.testing.local_broker import OttlaBroker


def test_a_topic_is_created_configured_grown_cloned_and_deleted(
    browser: Browser, broker: OttlaBroker
) -> None:
    page = browser.open("/topics")
    page.get_by_role("link", name="Create a topic").click()
    page.locator("form.panel [name=name]").fill("made-here")
    page.get_by_label("Partitions").fill("2")
    page.get_by_label("cleanup.policy").fill("compact")
    page.get_by_role("button", name="Create").click()
    shows(page, "Topic made-here is created.")

    page.get_by_role("link", name="Configs").click()
    row = page.locator("tr", has=page.get_by_text("retention.ms", exact=True))
    row.get_by_role("textbox").fill("60000")
    row.get_by_role("button", name="Save").click()
    shows(page, "Changed retention.ms of made-here.")
    row = page.locator("tr", has=page.get_by_text("retention.ms", exact=True))
    row.get_by_role("textbox").fill("soon")
    row.get_by_role("button", name="Save").click()
    expect(row.get_by_role("alert")).to_contain_text("retention.ms")

    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Add partitions…").click()
    page.get_by_label("Partitions in total").fill("5")
    page.get_by_role("button", name="Add", exact=True).click()
    shows(page, "made-here has 5 partitions now.")
    with Admin(broker.bootstrap_servers) as admin:
        assert len(admin.describe_topics(["made-here"])["made-here"].partitions) == 5
        configs = {each.name: each.value for each in admin.topic_configs("made-here")}
    assert configs["cleanup.policy"] == "compact"
    assert configs["retention.ms"] == "60000"

    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Clone…").click()
    expect(page.locator("[name='config.retention.ms']")).to_have_value("60000")
    page.get_by_role("button", name="Create").click()
    shows(page, "Topic made-here-copy is created.")

    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Delete topic…").click()
    page.get_by_label("to confirm").last.fill("something else")
    page.get_by_role("button", name="Delete topic", exact=True).click()
    shows(page, "Type the topic's name")
    page.get_by_label("to confirm").last.fill("made-here-copy")
    page.get_by_role("button", name="Delete topic", exact=True).click()
    shows(page, "Topic made-here-copy is deleted.")
    with Admin(broker.bootstrap_servers) as admin:
        assert "made-here-copy" not in admin.list_topics()


def test_a_topic_is_analyzed_and_what_matches_is_copied(browser: Browser, broker: OttlaBroker) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("sample", partitions=2)
    page = browser.open("/topics/odd/statistics")
    page.get_by_role("button", name="Analyze").click()
    expect(page.locator("#scan-text")).to_contain_text("4 of 4 offsets")
    expect(page.locator("#statistics tbody tr", has_text="Values")).to_contain_text("293 KiB")
    assert browser.violations() == []
    page = browser.open("/topics/orders/messages?where=%24.total%20%3E%20298")
    shows(page, "found in 600 of 600")
    page.get_by_role("button", name="Copy…").click()
    assert browser.violations() == []
    page.get_by_label("To", exact=True).fill("no-such-topic")
    page.get_by_role("button", name="Copy", exact=True).click()
    shows(page, "UNKNOWN_TOPIC_OR_PARTITION")
    page.get_by_label("To", exact=True).fill("sample")
    page.get_by_role("button", name="Copy", exact=True).click()
    shows(page, "3 messages are copied from orders to sample.")
    page.locator("#messages tr.message a").first.click()
    shows(page, '"id": "o-0005')
    shows(page, "trace")


def test_a_pipeline_shows_what_its_driver_does(browser: Browser, pipelines: Path) -> None:
    write_pipeline_state(pipelines, STARTING, flows=0)
    page = browser.open("/pipelines/shop")
    shows(page, "starting")
    write_pipeline_state(pipelines)
    shows(page, "Rows per second")
    page.get_by_role("button", name="Pause").click()
    shows(page, "shop pauses after its current batches.")
    assert (pipelines / "shop" / "paused").exists()
    write_pipeline_state(pipelines, PAUSED, batch=42)  # the page is not loaded again
    expect(page.locator("#flow-1")).to_contain_text("120,042")
    assert browser.violations() == []
    page.get_by_role("button", name="Resume").click()
    shows(page, "shop resumes.")
    assert not (pipelines / "shop" / "paused").exists()
    write_pipeline_state(pipelines, STOPPED)
    shows(page, "It does not run.")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    write_pipeline_state(pipelines)


def test_a_message_is_produced_found_opened_and_sent_again(browser: Browser, broker: OttlaBroker) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("typed", partitions=2)
        admin.create_topic("typed-copy", partitions=1)
    page = browser.open("/topics/typed/messages")
    shows(page, "There are no messages here.")
    page.get_by_role("link", name="Produce one").click()
    page.get_by_label("Key", exact=True).fill("k-1")
    page.get_by_label("Value", exact=True).fill('{"city": "Tromsø"')
    page.get_by_label("Value as").select_option("json")
    page.get_by_label("Headers").fill("source: console")
    page.get_by_role("button", name="Produce").click()
    shows(page, "The value is not JSON")
    page.get_by_label("Value", exact=True).fill('{"city": "Tromsø"}')
    page.get_by_role("button", name="Produce").click()
    shows(page, "Stored in partition")
    page.locator("#messages tr.message a").first.click()
    shows(page, '"city": "Tromsø"')
    shows(page, "console")
    page.get_by_label("Send again to").fill("typed-copy")
    page.get_by_role("button", name="Send", exact=True).click()
    shows(page, "Sent to typed-copy")
    browser.open("/topics/typed-copy/messages/0/0")
    page.get_by_role("link", name="Edit and send").click()
    expect(page.get_by_label("Headers")).to_have_value("source: console")
    assert browser.violations() == []
    page.get_by_label("Value as").select_option("null")
    page.get_by_role("button", name="Produce").click()
    shows(page, "Stored in partition 0 at offset 1.")
    with Consumer(
        broker.bootstrap_servers, topics="typed-copy", group_id="c", auto_offset_reset="earliest"
    ) as consumer:
        record, tombstone = consumer.getone(timeout_ms=10_000), consumer.getone(timeout_ms=10_000)
    assert json.loads(record.value) == {"city": "Tromsø"}
    assert tombstone.value is None
    assert {record.key, tombstone.key} == {b"k-1"}
    assert {record.headers, tombstone.headers} == {(("source", b"console"),)}


def test_messages_are_browsed_by_page_offset_and_time(browser: Browser) -> None:
    page = browser.open("/topics/orders/messages?limit=20")
    expect(page.locator("#messages tr.message")).to_have_count(20)
    shows(page, "order-000599")
    page.get_by_role("link", name="Older").click()
    expect(page.locator("#messages tr.message")).to_have_count(20)
    expect(page.get_by_text("order-000599")).to_have_count(0)
    page.get_by_label("From").select_option("offset")
    page.get_by_label("Offset or time").fill("3")
    page.locator("#filters").get_by_label("Partition").select_option("1")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#messages tr.message td:nth-child(3)").first).to_have_text("3")
    page.get_by_label("From").select_option("time")
    page.get_by_label("Offset or time").fill("2020-01-01T00:00")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#messages tr.message td:nth-child(3)").first).to_have_text("0")


def test_filters_are_evaluated_on_the_server_and_can_be_saved(browser: Browser) -> None:
    page = browser.open("/topics/orders/messages")
    page.get_by_label("Where").fill("$.customer.country = 'NO' AND $.total >= 290 AND NOT $.test")
    page.get_by_role("button", name="Show").click()
    shows(page, "5 found in 600 of 600 records")
    expect(page.locator("#messages tr.message")).to_have_count(5)
    page.get_by_role("button", name="Save filter").click()
    page.get_by_role("link", name="Clear").click()
    page.get_by_role("link", name="$.customer.country = 'NO'").click()
    shows(page, "5 found in 600 of 600 records")
    page.get_by_role("link", name="Clear").click()
    page.get_by_label("Header").fill("trace=t-17")
    page.get_by_role("button", name="Show").click()
    shows(page, "1 found in 600 of 600 records")
    page.get_by_label("Where").fill("$.total >")
    page.get_by_role("button", name="Show").click()
    shows(page, "The expression cannot be read")
    expect(page.get_by_label("Where")).to_have_value("$.total >")
    expect(page.get_by_label("Header")).to_have_value("trace=t-17")


def test_times_are_typed_as_they_are_shown(console: RunningConsole, new_browser: NewBrowser) -> None:
    browser = new_browser(console.url, zone="Asia/Kolkata")
    page = browser.open("/topics/payments/messages?start=oldest&partition=0")
    shown = page.locator("#messages time").nth(3)
    expect(shown).not_to_have_text(str(shown.get_attribute("datetime")))
    text = shown.inner_text()
    page.get_by_label("From").select_option("time")
    page.get_by_label("Offset or time").fill(text)
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_label("Offset or time")).to_have_value(text.replace(" ", "T") + "+05:30")
    expect(page.locator("#messages time").first).to_have_text(text)
    where = f"timestamp between '{text}' and '{text}' AND $.at != '{text}' OR timestamp in ('{text}')"
    page.get_by_label("Where").fill(where)
    page.get_by_role("button", name="Show").click()
    shows(page, " found in ")
    named = where.replace(text, text.replace(" ", "T") + "+05:30").replace(
        f"$.at != '{text.replace(' ', 'T')}+05:30'", f"$.at != '{text}'"
    )
    expect(page.get_by_label("Where")).to_have_value(named)
    expect(page.locator("#messages time").first).to_have_text(text)
    browser.check()


def test_a_tail_shows_what_is_written(browser: Browser, broker: OttlaBroker, console: RunningConsole) -> None:
    from ottla.client import Producer

    page = browser.open("/topics/clicks/messages?live=true")
    shows(page, "records/s")
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("clicks", b"GET /just-now", key=b"tail")
        producer.flush()
        shows(page, "GET /just-now")
        page.get_by_role("button", name="Pause").click()
        shows(page, "paused")


def test_odd_values_are_decoded_cut_and_loaded(browser: Browser) -> None:
    page = browser.open("/topics/odd/messages?start=oldest")
    page.locator("#messages tr.message a").nth(0).click()
    shows(page, "gzip json")
    shows(page, '"to": "Oslo"')
    page.locator("#messages tr.message a").nth(1).click()
    shows(page, "00000010  10 11 12 13")
    page.locator("#messages tr.message a").nth(2).click()
    shows(page, "Only the first 64.0 KiB of 293 KiB are shown.")
    page.get_by_role("link", name="Load all").click()
    expect(page.get_by_text("Only the first")).to_have_count(0)
    page.locator("#messages tr.message a").nth(2).click()
    expect(page.locator(".one")).to_have_count(2)


def test_an_export_is_the_whole_topic(browser: Browser) -> None:
    page = browser.open("/topics/orders/messages")
    page.locator("summary", has_text="Export").click()
    with page.expect_download() as coming:
        page.get_by_role("link", name="JSON").click()
    lines = coming.value.path().read_text().splitlines()
    assert len(lines) == 600
    assert {json.loads(line)["value"]["id"] for line in lines} == {f"o-{i:06}" for i in range(600)}


def test_an_open_transaction_is_aborted(browser: Browser, broker: OttlaBroker) -> None:
    with Producer(broker.bootstrap_servers, transactional_id="stuck") as producer:
        producer.begin_transaction()
        producer.send("payments", b"never seen").result()
        page = browser.open("/transactions?state=Ongoing")
        page.get_by_role("link", name="stuck").click()
        shows(page, "Open since")
        assert browser.violations() == []
        page.get_by_role("button", name="Abort…").click()
        page.get_by_label("to confirm").fill("stuck")
        page.get_by_role("button", name="Abort", exact=True).click()
        shows(page, "The transaction of stuck is aborted.")
        with pytest.raises((KafkaError, ClientError)):
            producer.commit_transaction()


def test_a_member_is_removed_and_a_group_deleted(browser: Browser, broker: OttlaBroker) -> None:
    with Consumer(
        broker.bootstrap_servers, group_id="short", topics="clicks", client_id="reader"
    ) as consumer:
        consumer.poll(3_000)
        consumer.commit()
        page = browser.open("/groups/short")
        expect(page.get_by_role("region", name="Members")).to_contain_text("clicks-0, clicks-1")
        page.get_by_role("button", name="Remove").click()
        page.get_by_role("button", name="Cancel").last.click()
        expect(page.get_by_role("region", name="Members")).to_contain_text("clicks-0, clicks-1")
        page.get_by_role("button", name="Remove").click()
        page.get_by_role("button", name="Continue").click()
        shows(page, "No member is connected.")
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog", name="Delete short").get_by_label("to confirm").fill("short")
    page.get_by_role("button", name="Delete group").click()
    shows(page, "short is deleted.")


def test_records_are_deleted_before_an_offset(browser: Browser, broker: OttlaBroker) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("shrinking")
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send("shrinking", b"%d" % number)
    page = browser.open("/topics/shrinking")
    page.locator("summary", has_text="More").click()
    page.get_by_role("button", name="Delete records…").click()
    page.locator("#delete-records [name=partition]").select_option("0")
    page.locator("#delete-records [name=before]").fill("4")
    page.locator("#delete-records [name=confirm]").fill("shrinking")
    page.locator("#delete-records button.danger").click()
    shows(page, "The records before that are deleted.")
    expect(page.get_by_role("region", name="Partitions").locator("tbody tr td").nth(4)).to_have_text("4")


def test_offsets_are_reset_with_a_preview(browser: Browser, broker: OttlaBroker) -> None:
    reset_offsets(browser, broker.bootstrap_servers)


def test_a_schema_is_checked_registered_compared_deleted_and_restored(browser: Browser) -> None:
    register_a_schema(browser)
    page = browser.page
    page.locator("[name=mode]").select_option("READONLY")
    page.get_by_role("button", name="Save the mode").click()
    shows(page, "The mode is READONLY now.")
    page.locator("[name=mode]").select_option("READWRITE")
    page.get_by_role("button", name="Save the mode").click()
    shows(page, "The mode is READWRITE now.")
    page.get_by_role("button", name="Delete…").click()
    page.get_by_label("to confirm").fill("shop-value")
    page.get_by_role("button", name="Delete", exact=True).click()
    shows(page, "shop-value is deleted.")
    browser.open("/schemas?deleted=true")
    assert browser.violations() == []
    page.get_by_role("button", name="Restore").click()
    shows(page, "shop-value is back, with schema id 2.")


def test_every_change_is_in_the_audit_log(browser: Browser) -> None:
    page = browser.open("/create-topic")
    page.locator("form.panel [name=name]").fill("audited")
    page.get_by_role("button", name="Create").click()
    shows(page, "Topic audited is created.")
    browser.open("/audit?q=audited")
    row = page.locator("tbody tr", has_text="Create a topic").first
    expect(row).to_contain_text("name=audited")
    expect(row).to_contain_text("anonymous")
