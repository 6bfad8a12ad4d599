"""Data directories to do harm to (see damage.py), made once in each state, and a copy for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

HELPERS = [
    "canary",
    "damage",
    "group_reader",
    "hostile",
    "keyed_load",
    "load",
    "reading",
    "replicas",
    "trial",
]
pytest.register_assert_rewrite(*(f"tests.cluster.{name}" for name in HELPERS))

from tests.cluster.damage import Damaged, build  # noqa: E402

Original = Callable[[str], Path]


QUICK = {"test_damaged_files", "test_history", "test_ottla_producer_faults", "test_replica_differences"}
"""What `make test` runs of this folder. In the other files brokers are killed and started many times."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `make test-all` what takes long."""
    folder = Path(__file__).parent
    for item in items:
        if item.path.parent == folder and item.path.stem not in QUICK:
            item.add_marker(pytest.mark.slow)


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest about our marker."""
    config.addinivalue_line("markers", "cluster: a schedule of faults that only `make test-cluster` runs")


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """Return the directory in a state; it is made when it is first asked for."""

    @cache
    def made(state: str) -> Path:
        data = tmp_path_factory.mktemp(state) / "data"
        build(data, state)
        return data

    return made


def copy_of(original: Original, state: str, tmp_path: Path) -> Iterator[Damaged]:
    """Yield a copy; afterwards its broker is gone, however the test left it."""
    copy = Damaged(original(state), tmp_path / "data", state)
    yield copy
    copy.close()


@pytest.fixture(params=["stopped", "killed"])
def damaged(request: pytest.FixtureRequest, original: Original, tmp_path: Path) -> Iterator[Damaged]:
    """A directory left by a clean stop, then one left by kill -9."""
    yield from copy_of(original, request.param, tmp_path)


@pytest.fixture
def stopped(original: Original, tmp_path: Path) -> Iterator[Damaged]:
    """A directory left by a clean stop."""
    yield from copy_of(original, "stopped", tmp_path)


@pytest.fixture
def killed(original: Original, tmp_path: Path) -> Iterator[Damaged]:
    """A directory left by kill -9."""
    yield from copy_of(original, "killed", tmp_path)
