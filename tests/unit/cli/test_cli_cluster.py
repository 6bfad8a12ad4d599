"""What `ottla cluster` shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from ottla.cli.cluster import plans
from ottla.cli.cluster.view import cluster_as_json, print_cluster, print_examination
from ottla.cli.support.problems import Problem
from ottla.client.admin.cluster_admin import BrokerInfo, ClusterInfo, MoveInfo
from ottla.client.admin.cluster_health import Health, check_restart, examine
from ottla.client.admin.moves import MoveWatch, Progress
from ottla.client.cluster import PartitionInfo, TopicInfo
from ottla.common.ids import TopicPartition
from ottla.wire.address import Address

MIB = 1 << 20


def cluster(*partitions: tuple[int, tuple[int, ...], tuple[int, ...]], dead: int = 0) -> ClusterInfo:
    """Return a cluster with one topic; a partition is leader, replicas, ISR."""
    found = {
        index: PartitionInfo(index, leader, 0, replicas, isr)
        for index, (leader, replicas, isr) in enumerate(partitions)
    }
    brokers = {each: BrokerInfo(each, Address("h", 9090 + each), "a", each != dead) for each in (1, 2, 3)}
    return ClusterInfo("id", 1, brokers, {"orders": TopicInfo("orders", None, False, found)})


def at(*indexes: int) -> list[TopicPartition]:
    return [TopicPartition("orders", each) for each in indexes]


def test_a_cluster_is_well_when_nothing_is_missing() -> None:
    health = Health.of(cluster((1, (1, 2), (1, 2)), (2, (2, 3), (3, 2))), {"orders": 2})
    assert health.is_healthy
    assert health.as_json()["healthy"] is True


def test_each_kind_of_trouble_is_distinguished(capsys: pytest.CaptureFixture[str]) -> None:
    info = cluster(
        (-1, (3,), ()),
        (1, (1, 3), (1,)),
        (1, (1, 2, 3), (1, 2)),
        (2, (1, 2), (1, 2)),
        dead=3,
    )
    health = Health.of(info, {"orders": 2})
    assert not health.is_healthy
    assert health.dead_brokers == [3]
    assert health.offline == at(0)
    assert health.under_min_isr == at(1)
    assert health.under_replicated == at(0, 1, 2)
    assert health.not_preferred == at(3)
    print_examination(examine(info, {"orders": 2}, {}))
    assert "  orders-2, without 3" in capsys.readouterr().out.splitlines()


def test_an_offline_partition_names_the_brokers_to_start_or_the_disks() -> None:
    def hint(info: ClusterInfo) -> str:
        return next(each.fix for each in examine(info, {}, {}).findings if each.code == "offline")

    assert hint(cluster((-1, (1, 3), ()), dead=3)) == "start broker 3, which may have the records"
    assert "not the disks with the records" in hint(cluster((-1, (3,), ())))


def test_what_is_offline_on_one_broker_only_does_not_forbid_its_restart() -> None:
    """The restart is what brings back a partition whose only replica is on its failed disk."""
    found = examine(cluster((-1, (2,), ()), (1, (1, 2, 3), (1, 3))), {"orders": 2}, {})
    assert check_restart(found, 2).is_safe
    assert not check_restart(found, 1).is_safe
    assert not check_restart(examine(cluster((-1, (2, 3), ())), {}, {}), 2).is_safe


def test_a_partition_on_its_way_is_not_in_trouble() -> None:
    info = cluster((1, (2, 1), (1,)))
    info.moves[at(0)[0]] = MoveInfo((2, 1), (2,), (1,))
    health = Health.of(info, {"orders": 1})
    assert health.is_healthy
    assert health.moving == at(0)


def test_many_partitions_are_counted_and_some_named(capsys: pytest.CaptureFixture[str]) -> None:
    print_examination(examine(cluster(*[(-1, (1,), ())] * 30), {}, {}))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("30 partitions offline")
    assert lines[21] == "  and 10 more"


def test_brokers_are_shown_with_what_they_hold(capsys: pytest.CaptureFixture[str]) -> None:
    info = cluster((1, (1, 2), (1, 2)), (2, (2, 3), (2,)), dead=3)
    print_cluster(info)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1*", "h:9091", "a", "alive", "1", "1", "1"] in lines
    assert ["3", "h:9093", "a", "not", "there", "0", "1", "0"] in lines
    (first, *_) = cluster_as_json(info)["brokers"]
    assert (first["leads"], first["holds"], first["in_sync"]) == (1, 1, 1)


class FakeMoves:
    """Moves that are further every time one looks."""

    def __init__(self, *steps: Progress) -> None:
        self.steps = steps

    async def progress(self) -> AsyncIterator[Progress]:
        for each in self.steps:
            yield each


async def test_in_a_pipe_progress_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plans, "LINE_EVERY_S", 0.0)
    moves: Any = FakeMoves(
        Progress(2, 2, MIB, 4 * MIB), Progress(1, 2, 3 * MIB, 4 * MIB), Progress(0, 2, 4, 4)
    )
    await plans.watch(moves)
    first, second, last = capsys.readouterr().err.splitlines()
    assert first == "2 partitions left, 1 of 4 MiB"
    assert second.startswith("1 partition left, 3 of 4 MiB, ")
    assert second.endswith(" s left")
    assert last == "2 partitions moved"


async def test_on_a_terminal_progress_is_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plans, "is_terminal", lambda _: True)
    moves: Any = FakeMoves(
        Progress(2, 2, 0, 0), Progress(1, 2, MIB, 2 * MIB), Progress(0, 2, 2 * MIB, 2 * MIB)
    )
    await plans.watch(moves)
    assert "2 of 2 partitions" in capsys.readouterr().err


async def test_moves_to_a_broker_that_is_away_say_so_and_what_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plans, "LINE_EVERY_S", 0.0)
    steps = Progress(2, 2, 0, 4 * MIB, silent=(3,)), Progress(0, 2, 4, 4)
    moves: Any = FakeMoves(*steps)
    await plans.watch(moves)
    line = capsys.readouterr().err.splitlines()[0]
    assert "waiting for broker 3, which does not answer" in line
    assert "ottla cluster reassign --cancel" in line
    moves = FakeMoves(*steps)
    monkeypatch.setattr(plans, "is_terminal", lambda _: True)
    await plans.watch(moves)
    assert capsys.readouterr().err.count("waiting for broker 3") == 1


async def test_a_move_has_ended_when_the_broker_that_is_asked_knows_how() -> None:
    """The controller knows first; a broker that still shows both replicas would hide the cancellation."""
    moved = MoveInfo((2, 1), (2,), (1,))
    answers = [cluster((1, (2, 1), (1,))), cluster((1, (2, 1), (1,))), cluster((1, (1,), (1,)))]

    class Admin:
        async def moves(self) -> dict[TopicPartition, MoveInfo]:
            return {}

        async def describe(self) -> ClusterInfo:
            return answers.pop(0)

    watched = MoveWatch(cast(Any, None), {at(0)[0]: moved})
    watched._admin = cast(Any, Admin())
    (end,) = [each async for each in watched.progress()]
    assert (end.cancelled, answers) == (1, [])


async def test_who_watches_learns_that_moves_were_cancelled(capsys: pytest.CaptureFixture[str]) -> None:
    moves: Any = FakeMoves(Progress(2, 2, MIB, 4 * MIB), Progress(0, 2, 2 * MIB, 4 * MIB, cancelled=1))
    with pytest.raises(Problem, match="1 move of 2 cancelled"):
        await plans.watch(moves)
    assert "moved" not in capsys.readouterr().err
