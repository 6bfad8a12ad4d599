"""The console in a real Chromium, Debian's; without it these tests are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import expect, sync_playwright
from tests.integration.registry_stage import RunningRegistry
from tests.interop.console.stage import CHROMIUM, Browser, RunningConsole, fill, write_pipeline_state

from ottla.client.admin import Admin
from ottla.testing.local_broker import OttlaBroker

NewBrowser = Callable[..., Browser]
WITHIN_MS = 60_000
LONG_NAME = "a-topic." + "with-a-name.that-is-longer-than-a-window-is-wide." * 3


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """Chromium for one module: playwright's event loop runs in this thread until its end."""
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}; install it with: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        expect.set_options(timeout=WITHIN_MS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        fill(running.bootstrap_servers)
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topic(LONG_NAME, partitions=1)
        yield running


@pytest.fixture(scope="module")
def registry(broker: OttlaBroker) -> Iterator[RunningRegistry]:
    with RunningRegistry(broker.bootstrap_servers) as running:
        yield running


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the state of a pipeline, whose driver is this process."""
    root = tmp_path_factory.mktemp("pipelines")
    write_pipeline_state(root)
    return root


@pytest.fixture(scope="module")
def console(broker: OttlaBroker, registry: RunningRegistry, pipelines: Path) -> Iterator[RunningConsole]:
    with RunningConsole(broker.bootstrap_servers, registry.url, pipelines=pipelines) as running:
        yield running


@pytest.fixture
def new_browser(chromium: Chromium) -> Iterator[NewBrowser]:
    contexts = []

    def make(base: str, *, width: int = 1280, scheme: str = "light", zone: str = "UTC") -> Browser:
        context = chromium.new_context(
            timezone_id=zone,
            viewport={"width": width, "height": 860},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        context.set_default_timeout(WITHIN_MS)
        contexts.append(context)
        return Browser(context, base)

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def browser(console: RunningConsole, new_browser: NewBrowser) -> Iterator[Browser]:
    """A page of the console; whatever a test does, no script fails and nothing leaves the host."""
    found = new_browser(console.url)
    yield found
    found.check()
