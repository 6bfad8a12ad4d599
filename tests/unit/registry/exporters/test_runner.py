"""What the runner of exporters, and the election of who runs them, log while brokers are away."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client import ClientError, group_membership
from ottla.registry import election
from ottla.registry.exporters.records import Exporter, ExporterState
from ottla.registry.exporters.runner import ExporterRunner


class Store:
    """Has one paused exporter, or none."""

    def __init__(self, *names: str) -> None:
        self.state = ExporterState()
        self.state.exporters = {name: Exporter(name, is_paused=True) for name in names}

    async def fresh(self) -> ExporterState:
        return self.state


async def logged_while_away(store: Any) -> None:
    """Run until the brokers, which answered once, have not answered a hundred times."""
    done, calls = asyncio.Event(), 0

    async def stand() -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            return SimpleNamespace(is_leader=True)
        if calls > 100:
            done.set()
        raise ClientError("no broker answers")

    nothing: Any = None
    async with ExporterRunner(nothing, store, stand, lambda: None, every_s=0):
        await done.wait()


@pytest.mark.parametrize(("names", "lines"), [((), 0), (("dr",), 1)])
def test_brokers_that_are_away_are_logged_once_and_only_if_there_are_exporters(
    names: tuple[str, ...], lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        asyncio.run(logged_while_away(Store(*names)))
    assert [each.getMessage() for each in caplog.records] == [
        "exporters cannot copy, retrying: no broker answers"
    ] * lines


def test_an_election_that_is_blocked_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_membership, "PAUSE_S", 0)
    calls = 0

    async def elect() -> None:
        done = asyncio.Event()

        async def connect() -> Any:
            nonlocal calls
            calls += 1
            if calls > 100:
                done.set()
            raise ClientError("no broker answers")

        nothing: Any = None
        standing = election.Election(nothing, "http://127.0.0.1:8081")
        monkeypatch.setattr(standing._group, "_connection", connect)
        async with standing:
            await done.wait()

    asyncio.run(elect())
    assert [each.getMessage() for each in caplog.records] == [
        "group schema-registry: cannot join, retrying: no broker answers"
    ]
