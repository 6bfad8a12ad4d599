"""Fixtures for every test that needs a broker process.

A module says how its broker is set up with `BROKER_SETTINGS = {"num.partitions": "3"}`.

With OTTLA_TEST_BOOTSTRAP=host:port (and OTTLA_TEST_DATA=its log directory) the tests that only talk to a
broker run against that one instead: against Apache Kafka itself, they show that what they expect of us is
what Kafka does (tests/interop/apache_kafka.py does all of that). Not with -n: they would share its configs.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.testing.broker_process import BrokerProcess

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `from tests.integration... import`


class GivenBroker:
    """A broker that somebody else started and will stop."""

    def __init__(self, address: str, data: Path) -> None:
        self.address = address
        self.data = data

    def stderr_tail(self) -> str:
        return f"the broker at {self.address} was not started by this test run"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the module's broker; the broker itself creates it."""
    return tmp_path_factory.mktemp("broker") / "data"


@pytest.fixture(scope="module")
def broker(data_dir: Path, request: pytest.FixtureRequest) -> Iterator[BrokerProcess | GivenBroker]:
    """A running broker for the module, stopped cleanly at its end."""
    if address := os.environ.get("OTTLA_TEST_BOOTSTRAP"):
        yield GivenBroker(address, Path(os.environ.get("OTTLA_TEST_DATA", os.devnull)))
        return
    settings = getattr(request.module, "BROKER_SETTINGS", {})
    with BrokerProcess(data_dir, settings=settings) as started:
        yield started


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Undo what `ottla serve` sets up when a test calls it: its stderr is closed when the test is over."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler and handler not in before:
            root.removeHandler(handler)
            root.setLevel(level)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Order the files of `-n 3 --dist loadfile`."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.scheduling import LongestFirst

    return LongestFirst(config, log)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Forget how the last run ended: if this one is killed, what failed before is not all that failed."""
    _note_end(session.config, None)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Note how the run ended, for tools/retry_failed.py."""
    _note_end(session.config, int(exitstatus))


def _note_end(config: pytest.Config, code: int | None) -> None:
    cache = getattr(config, "cache", None)  # absent with `-p no:cacheprovider`
    if cache is not None and not hasattr(config, "workerinput"):
        cache.set("ottla/last_run", code)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show the broker's stderr beside a failure."""
    report = yield
    used = getattr(item, "funcargs", {}).get("broker")
    if report.failed and hasattr(used, "stderr_tail"):
        report.sections.append(("broker stderr", used.stderr_tail()))
    return report
