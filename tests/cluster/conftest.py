"""Data directories to do harm to, made once for all tests that need them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster.damage import Damaged, build


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the directory of a state, made when it is first asked for."""
    made: dict[str, Path] = {}

    def original(state: str) -> Path:
        if state not in made:
            made[state] = tmp_path_factory.mktemp("originals") / state
            build(made[state], state)
        return made[state]

    return original


@pytest.fixture(params=["stopped", "killed"])
def damaged(
    request: pytest.FixtureRequest, originals: Callable[[str], Path], tmp_path: Path
) -> Iterator[Damaged]:
    """A copy, once of a broker that was stopped and once of one that was killed."""
    yield from _copy(originals, request.param, tmp_path)


@pytest.fixture
def stopped(originals: Callable[[str], Path], tmp_path: Path) -> Iterator[Damaged]:
    """A copy of the directory of a broker that was stopped."""
    yield from _copy(originals, "stopped", tmp_path)


@pytest.fixture
def killed(originals: Callable[[str], Path], tmp_path: Path) -> Iterator[Damaged]:
    """A copy of the directory of a broker that was killed."""
    yield from _copy(originals, "killed", tmp_path)


def _copy(originals: Callable[[str], Path], state: str, tmp_path: Path) -> Iterator[Damaged]:
    copy = Damaged(originals(state), tmp_path / "data", state)
    yield copy
    copy.broker.kill()
