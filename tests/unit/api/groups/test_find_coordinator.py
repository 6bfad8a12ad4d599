"""FindCoordinator, from bytes to bytes; and the topic that it makes."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3 import FindCoordinatorRequest as RequestV3
from kio.schema.find_coordinator.v6 import FindCoordinatorRequest
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.api import find_coordinator
from ottla.api.support import brief_wait
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.protocol.errors import CoordinatorNotAvailable

GROUP, TRANSACTION = 0, 1


def find(*keys: str, key_type: int = GROUP) -> FindCoordinatorRequest:
    asked: Any = {"key_type": key_type, "coordinator_keys": keys}
    return FindCoordinatorRequest(**asked)


def find_one(key: str, key_type: int = GROUP) -> RequestV3:
    asked: Any = {"key_type": key_type, "key": key}
    return RequestV3(**asked)


@pytest.mark.parametrize("version", range(4))
async def test_the_first_to_ask_makes_the_topic(version: int) -> None:
    bench = CoordinatorBench()
    await bench.start()
    answer = await bench.ask(find_one("g"), version)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (
        ErrorCode.none,
        1,
        "broker.example",
        9092,
    )
    assert CONSUMER_OFFSETS_TOPIC in bench.cluster.image.topics
    assert all(each.runtime.is_active for each in bench.groups._shards)
    await bench.stop()


@pytest.mark.parametrize("version", [4, 5, 6])
async def test_many_coordinators_are_found_at_once(bench: CoordinatorBench, version: int) -> None:
    found = (await bench.ask(find("a", "b", ""), version)).coordinators
    assert [(each.key, each.node_id, each.error_code) for each in found] == [
        ("a", 1, ErrorCode.none),
        ("b", 1, ErrorCode.none),
        ("", 1, ErrorCode.none),  # old clients keep offsets in it
    ]


class Peers:
    """Says of every other broker that it cannot be reached, so often."""

    def __init__(self, times: int) -> None:
        self.times = times

    def is_cut_off(self, node_id: int, channel: str) -> bool:
        self.times -= 1
        return self.times >= 0


@pytest.mark.parametrize("leaderless", [False, True])
async def test_in_place_of_a_dead_coordinator_the_next_one_is_waited_for(
    bench: CoordinatorBench, monkeypatch: pytest.MonkeyPatch, leaderless: bool
) -> None:
    monkeypatch.setattr(find_coordinator, "POLL_INTERVAL_S", 0.001)
    bench.services.peers = Peers(times=1_000)
    await bench.ask(find("g"))
    leaders = [CoordinatorNotAvailable("no leader") if leaderless else 7] * 3 + [1]

    async def who(_: str) -> int:
        leader = leaders.pop(0)
        if isinstance(leader, CoordinatorNotAvailable):
            raise leader
        return leader

    monkeypatch.setattr(bench.groups, "find", who)
    (found,) = (await bench.ask(find("g"))).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.none, 1)
    assert leaders == []


@pytest.mark.parametrize("limit", ["MAX_WAIT_S", "MAX_HOLD_S"])
async def test_waiting_for_another_coordinator_has_a_limit(
    bench: CoordinatorBench, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Nor does a request behind it, as long as it could."""
    monkeypatch.setattr(brief_wait, limit, 0)
    monkeypatch.setattr(bench.client, "has_queued_request", limit == "MAX_HOLD_S", raising=False)
    bench.services.peers = Peers(times=1_000)
    await bench.ask(find("g"))

    async def who(_: str) -> int:
        raise CoordinatorNotAvailable("no leader")

    monkeypatch.setattr(bench.groups, "find", who)
    (found,) = (await bench.ask(find("g"))).coordinators
    assert found.error_code == ErrorCode.coordinator_not_available
