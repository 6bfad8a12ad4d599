"""What people do by clicking, on whatever cluster: one broker, three of them, Apache Kafka."""

from __future__ import annotations

import json

from playwright.sync_api import expect
from tests.interop.console.stage import Browser, shows

from ottla.client.admin import Admin

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
READS_ORDERS = "principal=alice&operation=read&resource_type=topic&resource_name=orders"


def reset_offsets(browser: Browser, bootstrap: str) -> None:
    page = browser.open("/groups/billing")
    page.get_by_role("link", name="Reset offsets").click()
    page.locator("[name=target]").select_option("earliest")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview tbody tr")).not_to_have_count(0)
    with Admin(bootstrap) as admin:
        assert any(each.offset for each in admin.group_offsets("billing").values()), (
            "a preview changes nothing"
        )
    page.get_by_role("button", name="Reset", exact=False).last.click()
    shows(page, "of billing.")
    with Admin(bootstrap) as admin:
        assert {each.offset for each in admin.group_offsets("billing").values()} == {0}


def register_a_schema(browser: Browser) -> None:
    page = browser.open("/create-schema")
    page.locator("[name=subject]").first.fill("shop-value")
    page.locator("[name=schema]").fill(json.dumps(SCHEMA))
    page.get_by_role("button", name="Register").click()
    shows(page, "shop-value has a new schema")
    page.get_by_role("link", name="New version").click()
    broken = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "total", "type": "double"}]}  # type: ignore[misc]
    page.locator("[name=schema]").fill(json.dumps(broken))
    page.get_by_role("button", name="Check compatibility").click()
    shows(page, "Not compatible.")
    broken["fields"][-1]["default"] = 0.0  # type: ignore[index]
    page.locator("[name=schema]").fill(json.dumps(broken))
    page.get_by_role("button", name="Check compatibility").click()
    expect(page.locator("#checked")).to_have_text("Compatible.")
    page.get_by_role("button", name="Register").click()
    shows(page, "Changes since version 1")
    expect(page.locator(".diff .added").filter(has_text="total")).to_have_count(1)


def allow_and_deny(browser: Browser) -> None:
    page = browser.open(f"/explain-acl?{READS_ORDERS}")
    expect(page.locator("#verdict")).to_contain_text("No ACL allows it")
    assert browser.violations() == []
    page.get_by_role("link", name="Create an ACL that allows it").click()
    page.get_by_role("button", name="Create").click()
    shows(page, "The ACL is created.")
    assert browser.violations() == []
    browser.open(f"/explain-acl?{READS_ORDERS}".replace("=read", "=describe"))
    expect(page.locator("#verdict")).to_contain_text("Allowed.")
    browser.open("/acls?q=alice")
    page.get_by_role("link", name="Clone").click()
    expect(page.get_by_label("Principal")).to_have_value("User:alice")
    expect(page.get_by_label("read", exact=True)).to_be_checked()


def delete_the_acl(browser: Browser) -> None:
    page = browser.open("/acls?principal=User:alice")
    page.get_by_role("button", name="Delete").click()
    shows(page, "Delete the ACL that allows User:alice read on topic orders?")
    page.get_by_role("button", name="Continue").click()
    shows(page, "The ACL is deleted.")


def make_a_connector(browser: Browser) -> None:
    page = browser.open("/connectors")
    shows(page, "There are no connectors yet.")
    assert browser.violations() == []
    page.get_by_role("link", name="Create a connector").click()
    datagen = page.locator("select[name=class] option", has_text="Datagen").first.inner_text()
    page.locator("select[name=class]").select_option(datagen)
    page.get_by_role("button", name="Choose").click()
    page.locator("form.panel [name=name]").fill("made")
    page.get_by_role("button", name="Check").click()
    shows(page, "must be corrected")
    assert browser.violations() == []
    page.locator("form.panel [name=name]").fill("made")
    page.locator("[name='config.topic']").fill("generated")
    page.get_by_role("button", name="Check").click()
    shows(page, "The settings are valid.")
    page.locator("form.panel [name=name]").fill("made")
    page.get_by_role("button", name="Save").click()
    shows(page, "Connector made is saved.")
    page.get_by_role("button", name="Pause").click()
    shows(page, "pause was asked for")
