import pytest
from kio.schema.errors import ErrorCode
from tests.unit.client.fake_groups import FakeGroup, FakeMember

from ottla.client.admin.group_types import CommittedOffset, ListedGroup
from ottla.client.admin.groups import Groups
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    NonEmptyGroup,
    UnknownMemberId,
)

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
async def groups(peer, served):
    peer.versions.update(served)
    async with Cluster([peer.address]) as cluster:
        yield Groups(cluster)


@pytest.fixture
def served(request):
    """The versions that this broker serves, where they are not the newest."""
    return getattr(request, "param", {})


def serving(*choices):
    """Run a test with a broker that serves these versions, then with the next."""
    names = [
        ", ".join(f"{key.name} {oldest}-{newest}" for key, (oldest, newest) in each.items())
        for each in choices
    ]
    return pytest.mark.parametrize("served", choices, indirect=True, ids=[name or "newest" for name in names])


async def test_groups_are_listed_by_name_in_order(groups, peer):
    peer.groups = {"b": FakeGroup(), "a": FakeGroup("consumer", members=[FakeMember("m", [])])}
    assert await groups.list() == [
        ListedGroup("a", "consumer", "consumer", "Stable"),
        ListedGroup("b", "classic", "consumer", "Empty"),
    ]
    assert [each.group_id for each in await groups.list(states=["Stable"])] == ["a"]


@serving({ApiKey.LIST_GROUPS: (0, 2)})
async def test_an_old_broker_lists_groups_without_state_and_type(groups, peer):
    peer.groups = {"a": FakeGroup()}
    assert await groups.list() == [ListedGroup("a", "", "consumer", "")]


@pytest.mark.parametrize("kind", ["classic", "consumer"])
async def test_a_group_is_described_whatever_protocol_it_speaks(groups, peer, kind):
    peer.groups["app"] = FakeGroup(kind, members=[FakeMember("m-1", [ZERO, ONE], instance_id="i-1")])
    described = await groups.describe("app")
    assert (described.type, described.state, described.coordinator) == (kind, "Stable", 1)
    assert described.assignor == {"classic": "range", "consumer": "uniform"}[kind]
    (member,) = described.members
    assert (member.member_id, member.instance_id, member.host) == ("m-1", "i-1", "10.0.0.7")
    assert member.partitions == (ZERO, ONE)


async def test_members_of_another_kind_of_group_have_assignments_of_their_own(groups, peer):
    peer.groups["workers"] = FakeGroup(protocol_type="connect", members=[FakeMember("m-1", [])])
    described = await groups.describe("workers")
    assert [each.partitions for each in described.members] == [None]


@serving({}, {ApiKey.DESCRIBE_GROUPS: (0, 5)})
async def test_a_group_that_does_not_exist_is_said_not_to(groups, peer):
    with pytest.raises(GroupIdNotFound):
        await groups.describe("nope")


async def test_brokers_without_the_consumer_protocol_are_only_asked_for_classic_groups(peer):
    del peer.versions[ApiKey.CONSUMER_GROUP_DESCRIBE]
    peer.groups["app"] = FakeGroup()
    async with Cluster([peer.address]) as cluster:
        assert (await Groups(cluster).describe("app")).type == "classic"


@serving({}, {ApiKey.OFFSET_FETCH: (1, 7)})
async def test_committed_offsets_come_in_order_with_their_metadata(groups, peer):
    peer.groups["app"] = FakeGroup(offsets={ONE: (7, "seven"), ZERO: (3, "")})
    assert list((await groups.committed("app")).items()) == [
        (ZERO, CommittedOffset(3, -1, "")),
        (ONE, CommittedOffset(7, -1, "seven")),
    ]
    assert await groups.committed("nope") == {}


@serving({}, {ApiKey.FIND_COORDINATOR: (0, 3)})
async def test_a_coordinator_is_looked_up_by_old_and_new_brokers(groups, peer):
    assert await groups.coordinator("app") == 1


async def test_offsets_are_set_from_outside(groups, peer):
    await groups.commit("app", {ZERO: 5, ONE: 6, TopicPartition("users", 0): 7})
    assert peer.groups["app"].offsets == {
        ZERO: (5, ""),
        ONE: (6, ""),
        TopicPartition("users", 0): (7, ""),
    }


async def test_offsets_of_a_group_with_members_cannot_be_set(groups, peer):
    peer.groups["app"] = FakeGroup(members=[FakeMember("m-1", [ZERO])])
    with pytest.raises(UnknownMemberId, match="orders-0"):
        await groups.commit("app", {ZERO: 5})


@pytest.mark.parametrize(
    "passing",
    [
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
    ],
)
async def test_a_coordinator_that_moves_or_loads_is_asked_again(groups, peer, passing):
    peer.fail(ApiKey.FIND_COORDINATOR, ErrorCode.coordinator_not_available)
    peer.fail(ApiKey.OFFSET_COMMIT, passing)
    await groups.commit("app", {ZERO: 5})
    assert peer.groups["app"].offsets == {ZERO: (5, "")}
    assert len(peer.sent(ApiKey.OFFSET_COMMIT)) == 2


async def test_offsets_are_forgotten_unless_members_read_the_topic(groups, peer):
    peer.groups["app"] = FakeGroup(offsets={ZERO: (1, ""), ONE: (2, "")})
    await groups.delete_offsets("app", [ZERO])
    assert list(peer.groups["app"].offsets) == [ONE]
    peer.groups["app"].members.append(FakeMember("m-1", [ONE]))
    with pytest.raises(GroupSubscribedToTopic, match="orders-1"):
        await groups.delete_offsets("app", [ONE])


async def test_a_group_is_deleted_unless_it_has_members(groups, peer):
    peer.groups = {"idle": FakeGroup(), "busy": FakeGroup(members=[FakeMember("m-1", [])])}
    await groups.delete("idle")
    with pytest.raises(NonEmptyGroup, match="busy"):
        await groups.delete("busy")
    assert list(peer.groups) == ["busy"]
