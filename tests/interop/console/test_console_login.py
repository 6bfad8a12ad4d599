"""Login with the broker's users: what each may do is what the broker's ACLs allow."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect
from tests.integration.openid_stage import OpenIdProvider
from tests.integration.secure_stage import Certificates
from tests.interop.console.conftest import NewBrowser
from tests.interop.console.stage import CLUSTER, Browser, RunningConsole, shows
from tests.interop.console.walks import allow_and_deny, delete_the_acl

from ottla.client.admin import Acl, Admin
from ottla.console.access.oidc import OidcOptions
from ottla.testing.local_broker import OttlaBroker
from ottla.testing.local_cluster import LocalCluster

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISM = "SCRAM-SHA-512"
BROKER_LOGIN = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": MECHANISM,
    "sasl_plain_username": "broker",
    "sasl_plain_password": "broker-secret",
}
SETTINGS = {
    "sasl.enabled.mechanisms": MECHANISM,
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    "ottla.bootstrap.scram": f"{MECHANISM}=[name=broker,password=broker-secret]",
    "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
        f'{SCRAM_MODULE} required username="broker" password="broker-secret";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:broker;User:chief",
    "delegation.token.secret.key": "a-secret-of-the-cluster",
}
Client = dict[str, str]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def client(certificates: Certificates) -> Client:
    """How the console connects."""
    return {**BROKER_LOGIN, "ssl_cafile": str(certificates.ca)}


@pytest.fixture(scope="module")
def secured(certificates: Certificates, client: Client) -> Iterator[str]:
    stores = {
        "ssl.keystore.location": str(certificates.sign("broker")),
        "ssl.truststore.location": str(certificates.ca),
    }
    with LocalCluster(1, settings=SETTINGS | stores, security_protocol="SASL_SSL") as cluster:
        with Admin(cluster.bootstrap_servers, **client) as admin:
            admin.set_scram_password("chief", "chief-secret")
            admin.set_scram_password("alice", "alice-secret")
            admin.set_scram_password("otto", "otto-secret")
            for operation in ("create", "describe"):
                admin.create_acls([Acl("User:otto", operation, "cluster", "kafka-cluster")])
            admin.create_topic("orders", partitions=2)
        yield cluster.bootstrap_servers


@pytest.fixture(scope="module")
def guarded(secured: str, client: Client) -> Iterator[RunningConsole]:
    with RunningConsole(secured, client=dict(client), login="broker") as console:
        yield console


def log_in(browser: Browser, user: str, password: str) -> None:
    page = browser.open("/topics")
    page.wait_for_url("**/login**")
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def test_a_wrong_password_is_refused_and_the_right_one_leads_on(
    guarded: RunningConsole, new_browser: NewBrowser
) -> None:
    browser = new_browser(guarded.url)
    log_in(browser, "chief", "wrong")
    shows(browser.page, "does not accept this name and password")
    assert browser.violations() == []
    log_in(browser, "chief", "chief-secret")
    browser.page.wait_for_url(f"**/c/{CLUSTER}/topics")
    shows(browser.page, "orders")
    expect(browser.page.locator(".who")).to_contain_text("chief admin")
    browser.page.get_by_role("button", name="Log out").click()
    browser.open("/topics")
    browser.page.wait_for_url("**/login**")
    browser.check()


def test_a_login_at_an_openid_provider_leads_to_the_page_that_was_asked_for(
    broker: OttlaBroker, new_browser: NewBrowser
) -> None:
    with OpenIdProvider() as provider:
        oidc = OidcOptions(provider.issuer, "console")
        with RunningConsole(broker.bootstrap_servers, login="oidc", oidc=oidc) as guarded:
            browser = new_browser(guarded.url)
            page = browser.open("/topics/orders/configs")
            page.wait_for_url("**/login**")
            assert CLUSTER not in page.locator("body").inner_text()
            assert browser.violations() == []
            page.get_by_role("link", name="Log in with your organization").click()
            page.wait_for_url("**/topics/orders/configs")
            expect(page.locator(".who")).to_contain_text("alice operator")
            page.goto(f"{guarded.server.url}/login/oidc/back?code=c&state=forged")
            shows(page, "This login was not begun here")
            browser.hosts.discard(urlsplit(provider.issuer).netloc)
            browser.check()


def test_an_open_page_leads_to_the_login_when_its_session_is_over(
    secured: str, client: Client, new_browser: NewBrowser
) -> None:
    with RunningConsole(secured, client=dict(client), login="broker", idle_timeout_s=2.0) as console:
        browser = new_browser(console.url)
        log_in(browser, "chief", "chief-secret")
        page = browser.page
        page.wait_for_url(f"**/c/{CLUSTER}/topics")
        page.get_by_role("link", name="Overview").click()  # its plots ask for samples all the time
        page.wait_for_url("**/login?to=**")
        page.get_by_label("User").fill("chief")
        page.get_by_label("Password").fill("chief-secret")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"**/c/{CLUSTER}")
        browser.check()


def test_an_acl_is_explained_created_and_lets_alice_in(
    guarded: RunningConsole, new_browser: NewBrowser
) -> None:
    alice = new_browser(guarded.url)
    log_in(alice, "alice", "alice-secret")
    expect(alice.page.locator(".who")).to_contain_text("alice viewer")
    shows(alice.page, "There are no topics yet.")
    assert alice.page.get_by_role("link", name="Create a topic").count() == 0
    alice.open("/topics/orders/messages")
    shows(alice.page, "TOPIC_AUTHORIZATION_FAILED")
    alice.open("/audit")
    shows(alice.page, "This needs the role admin")

    chief = new_browser(guarded.url)
    log_in(chief, "chief", "chief-secret")
    allow_and_deny(chief)

    alice.open("/topics")
    shows(alice.page, "orders")
    alice.open("/topics/orders/messages")
    shows(alice.page, "There are no messages here.")

    delete_the_acl(chief)
    alice.check()
    chief.check()


def test_a_user_that_may_describe_the_cluster_and_create_is_an_operator(
    guarded: RunningConsole, new_browser: NewBrowser
) -> None:
    browser = new_browser(guarded.url)
    log_in(browser, "otto", "otto-secret")
    expect(browser.page.locator(".who")).to_contain_text("otto operator")
    browser.open("/audit")
    shows(browser.page, "with Alter or AlterConfigs, an admin")


def test_users_quotas_and_tokens_are_made_by_clicking(
    guarded: RunningConsole, secured: str, client: Client, new_browser: NewBrowser
) -> None:
    browser = new_browser(guarded.url)
    log_in(browser, "chief", "chief-secret")
    browser.page.wait_for_url(f"**/c/{CLUSTER}/topics")
    page = browser.open("/users")
    page.get_by_role("button", name="Create a user").click()
    page.locator("#create-user [name=name]").fill("bob")
    page.locator("#create-user [name=password]").fill("bob-secret")
    page.get_by_role("button", name="Save").click()
    shows(page, "bob can log in with SCRAM-SHA-512.")
    assert browser.violations() == []
    with Admin(
        secured, **{**client, "sasl_plain_username": "bob", "sasl_plain_password": "bob-secret"}
    ) as admin:
        admin.list_topics()
    browser.open("/quotas")
    page.get_by_role("button", name="Set a quota").click()
    page.locator("#set-quota [name=user]").fill("bob")
    page.locator("[name='quota.producer_byte_rate']").fill("1048576")
    page.get_by_role("button", name="Save").click()
    shows(page, "1.0 MiB/s")
    assert browser.violations() == []
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Continue").click()
    shows(page, "There are no quotas.")
    browser.open("/tokens")
    page.get_by_role("button", name="Create a token").click()
    page.locator("[name=renewers]").fill("User:bob")
    page.get_by_role("button", name="Create", exact=True).click()
    shows(page, "Its password is shown only now")
    secret = page.locator(".banner code").inner_text()
    assert browser.violations() == []
    page.get_by_role("button", name="Renew").click()
    shows(page, "The token is renewed.")
    page.get_by_role("button", name="Expire").click()
    page.get_by_role("button", name="Continue").click()
    shows(page, "There are no delegation tokens.")
    browser.open("/certificates")
    shows(page, "Example")
    expect(page.locator("tbody tr")).to_contain_text("TLSv1.3")
    assert browser.violations() == []
    browser.open("/audit")
    shows(page, "Change quotas")
    assert "bob-secret" not in page.content()
    assert secret not in page.content()
    browser.check()
