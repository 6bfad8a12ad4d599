"""Groups whose broker is killed at the worst moment: during a rebalance, between commit and reply."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import HasAddress, wait_until
from tests.integration.group_table import BROKER_SETTINGS, SHORT_SESSION_MS, MakeTable, Table, open_tables
from tests.integration.member_libraries import CLASSIC, LIBRARIES
from tests.integration.members import places_of, wait_for, wait_until_shared
from tests.integration.wire import Closed, Wire, create_topic
from tests.integration.wire_groups import WireMember, ms, stable_group

from ottla.common.ids import new_uuid
from ottla.protocol.api_keys import ApiKey
from ottla.testing.broker_process import BrokerProcess

__all__ = ["BROKER_SETTINGS"]


@pytest.fixture(autouse=True)
def own_broker(broker: HasAddress) -> BrokerProcess:
    if not isinstance(broker, BrokerProcess):
        pytest.skip("OTTLA_TEST_BOOTSTRAP names the broker, so it is not ours to kill")
    if not broker.is_running:
        broker.start()
    wait_for_coordinator(broker.address, "any")
    return broker


@pytest.fixture
def make_table(own_broker: BrokerProcess) -> Iterator[MakeTable]:
    with open_tables(own_broker) as make:
        yield make


@pytest.fixture(params=LIBRARIES)
def table(request: pytest.FixtureRequest, make_table: MakeTable) -> Table:
    """Each library in turn."""
    return make_table(LIBRARIES[request.param])


@pytest.fixture
def group() -> str:
    return f"group-{new_uuid().hex[:8]}"


@pytest.fixture
def topic(own_broker: BrokerProcess, group: str) -> str:
    with Wire(own_broker.address) as wire:
        create_topic(wire, f"{group}-topic", partitions=4)
    return f"{group}-topic"


@pytest.fixture
def outsider(own_broker: BrokerProcess, group: str, topic: str) -> Iterator[WireMember]:
    """Somebody who commits for the group without being a member of it."""
    with WireMember(own_broker.address, group, topic) as opened:
        yield opened


def wait_for_coordinator(address: str, group: str) -> None:
    """Wait until the group's coordinator has been found and has loaded."""

    def is_loaded() -> bool:
        with Wire(address) as wire:
            wire.call(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=[group])
            asked = {"group_id": group, "topics": None, "member_epoch": -1}
            (answer,) = wire.call(ApiKey.OFFSET_FETCH, 9, groups=[asked]).groups
        return answer.error_code == ErrorCode.none

    wait_until(is_loaded, "the coordinator")


def kill_and_start(broker: BrokerProcess, group: str) -> None:
    broker.kill()
    broker.start()
    wait_for_coordinator(broker.address, group)


# Rebalances


@pytest.mark.parametrize("library", [each.name for each in CLASSIC])
@pytest.mark.parametrize("phase", ["joining", "syncing"])
def test_pitfall_20_a_group_killed_in_the_middle_of_a_rebalance_shares_the_work_by_itself(
    phase: str, library: str, make_table: MakeTable, own_broker: BrokerProcess
) -> None:
    table = make_table(LIBRARIES[library])
    topic = table.topic(4)
    with WireMember(own_broker.address, table.group, topic) as leader:
        # The leader holds the others up: it does not join again, or it does not hand in an assignment.
        leader.join(session_timeout=ms(SHORT_SESSION_MS))
        leader.sync(leader)
        members = [table.member(topic, assignor="range") for _ in range(2)]
        wait_until(lambda: leader.heartbeat() == ErrorCode.rebalance_in_progress, "a member to join")
        if phase == "syncing":
            answer = leader.join(session_timeout=ms(SHORT_SESSION_MS))
            assert (answer.error_code, answer.leader) == (ErrorCode.none, leader.member_id)
        own_broker.kill()
        assert not any(member.owned for member in members)
    own_broker.start()
    wait_until_shared(members, places_of(topic, 4), shares=(2, 2))


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_running_members_find_back_to_each_other_and_read_on(
    how: str, table: Table, own_broker: BrokerProcess
) -> None:
    topic = table.topic(4, records=3)
    members = [table.member(topic, auto_commit=True) for _ in range(2)]
    wait_until_shared(members, places_of(topic, 4), shares=(2, 2))
    wait_for(members, lambda: table.committed(*places_of(topic, 4)) == [3] * 4, "everything to be committed")
    if how == "kill":
        own_broker.kill()
    else:
        own_broker.stop()
    own_broker.start()
    table.produce(topic, 4, 3, first=3)
    wait_for(members, lambda: table.committed(*places_of(topic, 4)) == [6] * 4, "the new records")
    wait_until_shared(members, places_of(topic, 4), shares=(2, 2))
    seen = {each.value for member in members for each in member.read}
    assert seen == {f"{index}:{number}".encode() for index in range(4) for number in range(6)}


def test_a_stable_group_is_stable_after_a_crash_and_its_members_have_lost_nothing(
    own_broker: BrokerProcess, group: str, topic: str
) -> None:
    with stable_group(own_broker.address, group, topic) as member:
        assert member.commit({(topic, 0): 7}) == [ErrorCode.none]
        kill_and_start(own_broker, group)
        member.reconnect()
        assert member.heartbeat() == ErrorCode.none
        assert member.sync().error_code == ErrorCode.none
        assert member.committed() == {0: (7, "")}
        assert member.commit({(topic, 0): 8}) == [ErrorCode.none]


def test_a_member_that_does_not_return_after_a_crash_is_forgotten(
    own_broker: BrokerProcess, group: str, topic: str
) -> None:
    with WireMember(own_broker.address, group, topic) as lost:
        lost.join(session_timeout=ms(SHORT_SESSION_MS))
        lost.sync(lost)
        kill_and_start(own_broker, group)
    with WireMember(own_broker.address, group, topic) as newcomer:
        assert newcomer.join().error_code == ErrorCode.none
        assert newcomer.generation == lost.generation + 1
        assert newcomer.heartbeat(member_id=lost.member_id) == ErrorCode.unknown_member_id


# Commits


COMMITS = 30


@pytest.mark.parametrize("answers", [0, 1, 10, 29])
def test_no_committed_offset_is_lost_and_none_is_invented(
    answers: int, own_broker: BrokerProcess, outsider: WireMember
) -> None:
    kept = 0
    for first in (1, 1 + COMMITS):
        acked = commit_until_killed(own_broker, outsider, first, answers)
        own_broker.start()
        wait_for_coordinator(own_broker.address, outsider.group)
        outsider.reconnect()
        found = outsider.committed().get(0, (0, "commit 0"))
        assert outsider.committed().get(1, (0, "commit 0")) == found, "half a commit"
        offset, metadata = found
        assert max(acked, kept) <= offset < first + COMMITS
        assert metadata == f"commit {offset}"
        kept = offset


def commit_until_killed(broker: BrokerProcess, member: WireMember, first: int, answers: int) -> int:
    """Send many commits and kill the broker after so many answers; return the last one that was answered.

    Each commit moves two partitions to the same offset, and says in its metadata which one it is.
    """
    sent = []
    for number in range(first, first + COMMITS):
        offsets = {(member.topic, 0): number, (member.topic, 1): number}
        fields = member.commit_fields(offsets, metadata=f"commit {number}")
        sent.append((number, member.wire.send(ApiKey.OFFSET_COMMIT, 9, **fields)))
    acked = 0
    for number, correlation_id in sent:
        if number == first + answers:
            broker.kill()
        try:
            answer = member.wire.receive(ApiKey.OFFSET_COMMIT, 9, correlation_id)
        except (Closed, OSError):
            break
        assert [each.partitions[0].error_code for each in answer.topics] == [ErrorCode.none] * 2
        acked = number
    return acked
