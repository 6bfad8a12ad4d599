"""Data directories to do harm to (see damage.py), made once in each state, and a copy for every test."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

HELPERS = [
    "canary",
    "conditions",
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

from tests.cluster.conditions import (  # noqa: E402
    ClusterMaker,
    ConditionedCluster,
    Conditions,
    conditions_of,
)
from tests.cluster.damage import Damaged, build  # noqa: E402

Original = Callable[[str], Path]


QUICK = {"test_damaged_files", "test_history", "test_ottla_producer_faults", "test_replica_differences"}
"""What `make test` runs of this folder. In the other files brokers are killed and started many times."""


DEALT: dict[str, Conditions] = {}
"""The conditions of this run's schedules."""
RUN = os.environ.get("OTTLA_TEST_SEED") or os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(random.random())
"""The same for all workers of a run: they deal alike."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `make test-all` what takes long, and deal the conditions of the schedules."""
    DEALT.update(conditions_of(items, RUN))
    folder = Path(__file__).parent
    for item in items:
        if item.path.parent == folder and item.path.stem not in QUICK:
            item.add_marker(pytest.mark.slow)


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest about our marker."""
    config.addinivalue_line("markers", "cluster: a schedule of faults that only `make test-cluster` runs")


@pytest.fixture
def under_conditions(request: pytest.FixtureRequest, tmp_path: Path) -> ClusterMaker:
    """Makes the cluster of a schedule, under the conditions that it was dealt."""
    conditions = DEALT[request.node.nodeid]
    print(f"OTTLA_TEST_CONDITIONS={conditions}")

    def make(
        *, settings: Mapping[str, str] | None = None, disks: Mapping[int, Path] | None = None
    ) -> ConditionedCluster:
        return ConditionedCluster(
            tmp_path, conditions, f"{RUN} {request.node.nodeid}", settings=settings, disks=disks
        )

    return make


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
