"""`ottla serve -n`: what each broker is told, and that one which crashes is started again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.serve.cluster import ClusterPlan
from ottla.cli.support import child_processes
from ottla.cli.support.problems import Problem

PLAN = ClusterPlan(3, Path("data"), "127.0.0.1", 9092, None, {}, None, "info")


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def test_node_ids_begin_at_1_or_at_the_given_number() -> None:
    assert [option(PLAN.arguments(each, "z"), "--node-id") for each in (1, 2, 3)] == ["1", "2", "3"]
    from_0 = replace(PLAN, first_id=0)
    assert [option(from_0.arguments(each, "z"), "--node-id") for each in (1, 2, 3)] == ["0", "1", "2"]
    assert option(from_0.arguments(1, "z"), "--data") == "data/broker-0"
    assert option(from_0.arguments(1, "z"), "--listen") == "127.0.0.1:9092"


def test_brokers_get_the_racks_in_turn() -> None:
    racked = replace(PLAN, settings={"broker.rack": "a, b"})
    given = [racked.arguments(each, "z") for each in (1, 2, 3)]
    assert ["broker.rack=a" in each for each in given] == [True, False, True]
    assert ["broker.rack=b" in each for each in given] == [False, True, False]


class Processes:
    """Processes that end as they are told to."""

    def __init__(self, codes: list[int]) -> None:
        self.codes = codes
        self.restarted: list[Any] = []

    def child(self) -> Any:
        code = self.codes.pop(0)

        async def wait() -> int:
            return code

        return SimpleNamespace(name="broker-1", process=SimpleNamespace(wait=wait, pid=1))

    async def restart(self, child: Any) -> Any:
        self.restarted.append(child)
        return self.child()


async def test_a_process_that_crashes_is_restarted_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    processes = Processes([-9, 1, 0])
    monkeypatch.setattr(child_processes, "RESTART_AFTER_S", 0.0)
    children = [processes.child()]
    first = children[0]
    with pytest.raises(Problem, match="every process has stopped"):
        await child_processes.keep_running(children, processes.restart, asyncio.Event())
    assert len(processes.restarted) == 2
    assert processes.restarted[0] is first
    said = capsys.readouterr().err
    assert "broker-1 ended with exit code -9; restarting it in 0 s" in said
    assert "broker-1 was stopped; the others keep running" in said
