"""`ottla serve -n`: what each broker is told, and that one which crashes is started again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.serve import cluster
from ottla.cli.serve.cluster import ClusterPlan
from ottla.cli.support.problems import Problem

PLAN = ClusterPlan(3, Path("data"), "127.0.0.1", 9092, None, {}, None, "info")


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def test_node_ids_begin_at_1_or_where_they_are_told_to() -> None:
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


class Brokers:
    """Processes that end as they are told to, and remember how they were started."""

    def __init__(self, codes: list[int]) -> None:
        self.codes = codes
        self.ports: list[int] = []

    async def start(self, number: int, plan: ClusterPlan, zookeeper: str, free_port: int = 0) -> Any:
        self.ports.append(free_port)
        code = self.codes.pop(0)

        async def wait() -> int:
            return code

        process = SimpleNamespace(wait=wait, pid=1)
        return SimpleNamespace(number=number, name=plan.name(number), process=process, port=free_port or 4711)


async def test_a_broker_that_crashes_is_started_again_at_its_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers = Brokers([-9, 1, 0])
    monkeypatch.setattr(cluster, "_start_broker", brokers.start)
    monkeypatch.setattr(cluster, "RESTART_AFTER_S", 0.0)
    plan = replace(PLAN, port=0)
    children = [await brokers.start(1, plan, "z")]
    with pytest.raises(Problem, match="all brokers have stopped"):
        await cluster._wait_until_stopped(children, plan, "z", asyncio.Event())
    assert brokers.ports == [0, 4711, 4711]
    said = capsys.readouterr().err
    assert "broker-1 ended with exit code -9; restarting it in 0 s" in said
    assert "broker-1 was stopped; the others keep running" in said
