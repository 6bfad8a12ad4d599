"""Several brokers on one store: who is the controller, and what happens when a session is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.waiting import until

from ottla.api.support.context import RequestContext
from ottla.api.support.error_response import error_response
from ottla.api.table import APIS
from ottla.common.clock import SystemClock
from ottla.common.config.broker import BrokerConfig
from ottla.controller import membership, runner, term
from ottla.controller.machine import NewTopic
from ottla.controller.runner import Controller
from ottla.metadata import state
from ottla.metadata.entities import IsrChange
from ottla.metadata.image import TopicImage
from ottla.metadata.memory import MemoryServer, MemoryStore
from ottla.metadata.records import Endpoint
from ottla.metadata.state import ClusterState
from ottla.protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NetworkException,
    NotController,
    RequestTimedOut,
    StaleBrokerEpoch,
)
from ottla.protocol.schema.messages import (
    request_decoder,
    request_encoder,
    response_class,
    response_decoder,
    response_encoder,
)


@pytest.fixture(autouse=True)
def _without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (runner, membership, term, state):
        monkeypatch.setattr(module, "RETRY_S", 0.005)


class Member:
    """One broker of the cluster, without logs."""

    def __init__(self, cluster: Together, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.state = ClusterState()
        self.config = BrokerConfig({"node.id": str(node_id)})
        self.lost = 0
        store = MemoryStore(cluster.server, node_id)
        self.controller = Controller(store, self.state, SystemClock(), node_id, lambda: self.config, self)
        self.controller.on_session_lost = self._session_lost

    def _session_lost(self) -> None:
        assert not self.controller.is_registered
        self.lost += 1

    async def start(self) -> None:
        await self.controller.start()
        await self.controller.register_broker(
            [Endpoint("PLAINTEXT", f"broker-{self.node_id}", 9092)], after_unclean_stop=False
        )

    async def call(
        self, node_id: int, api_key: int, version: int, request: Any, *, timeout_ms: int = 0
    ) -> Any:
        """Send a request to another member, through real bytes."""
        if node_id not in self.cluster.members:
            raise NetworkException("nobody there")
        frame = request_encoder(api_key, version, version)(request)
        answer = await self.cluster.members[node_id].answer(api_key, version, frame)
        return response_decoder(api_key, version, version)(answer, 0)

    async def answer(self, api_key: int, version: int, frame: bytes) -> bytes:
        serving = APIS[api_key].range_for(version)
        assert serving is not None
        services = SimpleNamespace(
            node_id=self.node_id,
            controller=self.controller,
            cluster=self.state,
            config=self.config,
            quotas=None,
            authorizer=None,
            audit=None,
        )
        connection = SimpleNamespace(
            peer="p",
            host="h",
            listener_name="PLAINTEXT",
            software="",
            has_fetched=False,
            has_queued_request=False,
            principal="User:ANONYMOUS",
        )
        ctx = RequestContext(cast(Any, services), connection, api_key, version, 7, "test")
        try:
            response = await serving.load()(request_decoder(api_key, version, version)(frame, 0), ctx)
        except KafkaError as error:
            response = error_response(response_class(api_key, version), error)
            if response is None:  # there is no place for an error: the connection is closed
                raise NetworkException(str(error)) from error
        return response_encoder(api_key, version, version)(response)


class Together:
    """Members on one store."""

    def __init__(self) -> None:
        self.server = MemoryServer(session_timeout_s=0.05)
        self.members: dict[int, Member] = {}

    async def start(self, *nodes: int) -> None:
        for node_id in nodes:
            self.members[node_id] = Member(self, node_id)
        await asyncio.gather(*(self.members[each].start() for each in nodes))

    async def stop(self, *nodes: int) -> None:
        for node_id in nodes:
            await self.members.pop(node_id).controller.stop()

    until = staticmethod(until)

    @property
    def active(self) -> list[int]:
        return [each.node_id for each in self.members.values() if each.controller.is_active]

    def all_see(self, is_so: Callable[[ClusterState], bool]) -> bool:
        return all(is_so(each.state) for each in self.members.values())


@pytest.fixture
async def together() -> AsyncIterator[Together]:
    cluster = Together()
    await cluster.start(1, 2, 3)
    yield cluster
    for node_id in list(cluster.members):
        cluster.server.heal(node_id)
    await cluster.stop(*cluster.members)


async def orders(member: Member) -> TopicImage:
    (made,) = await member.controller.create_topics([NewTopic("orders", 3, 3)])
    assert isinstance(made, TopicImage), made
    return made


async def test_one_is_the_controller_and_all_see_the_same_cluster(together: Together) -> None:
    assert len(together.active) == 1
    await together.until(lambda: together.all_see(lambda each: len(each.image.brokers) == 3))
    newest = max(each.state.image.version for each in together.members.values())
    await together.until(lambda: together.all_see(lambda each: each.image.version == newest))
    images = [each.state.image for each in together.members.values()]
    assert images[0] == images[1] == images[2]
    assert images[0].controller_id == together.active[0]


async def test_every_broker_can_create_topics_and_take_producer_ids(together: Together) -> None:
    for number, member in enumerate(together.members.values()):
        (made,) = await member.controller.create_topics([NewTopic(f"topic-{number}", 1, 1)])
        assert isinstance(made, TopicImage)
        (again,) = await member.controller.create_topics([NewTopic(f"topic-{number}", 1, 99)])
        assert isinstance(again, KafkaError | TopicImage)
    blocks = [await each.controller.allocate_producer_ids() for each in together.members.values()]
    taken = [each for block in blocks for each in block]
    assert len(set(taken)) == len(taken) == 3_000


async def test_another_takes_over_when_the_controller_stops(together: Together) -> None:
    (first,) = together.active
    await orders(together.members[first])
    await together.stop(first)
    await together.until(lambda: bool(together.active))
    (second,) = together.active
    image = together.members[second].state.image
    await together.until(lambda: together.members[second].state.image.brokers[first].fenced)
    image = together.members[second].state.image
    assert image.controller_id == second
    assert all(each.leader != first for each in image.topics["orders"].partitions)
    await together.start(first)
    assert together.members[first].controller.is_registered
    assert together.active == [second]


async def test_a_broker_that_loses_its_session_is_reported_at_once_and_returns(together: Together) -> None:
    (controller,) = together.active
    lost = next(each for each in together.members if each != controller)
    member = together.members[lost]
    epoch = member.controller.broker_epoch
    together.server.expire_node(lost)
    await together.until(lambda: member.lost == 1)
    await together.until(lambda: member.controller.is_registered)
    assert member.controller.broker_epoch > epoch
    assert together.active == [controller]


async def test_a_controller_cut_from_the_store_is_replaced_and_fenced(together: Together) -> None:
    (first,) = together.active
    old = together.members[first]
    topic = await orders(old)
    others = [each for number, each in together.members.items() if number != first]
    together.server.cut(first)
    await together.until(lambda: any(each.controller.is_active for each in others))
    second = next(each for each in others if each.controller.is_active)
    await together.until(lambda: second.state.image.brokers[first].fenced)
    assert old.controller.is_active  # it cannot know
    with pytest.raises(RequestTimedOut):
        await old.controller.active_controller.create_topics([NewTopic("lost", 1, 1)])
    together.server.heal(first)
    with pytest.raises(NotController):
        await old.controller.active_controller.create_topics([NewTopic("late", 1, 1)])
    await together.until(lambda: old.lost == 1 and old.controller.is_registered)
    assert not old.controller.is_active
    assert set(old.state.image.topics) == {topic.name}


async def test_an_append_whose_answer_was_lost_is_found_in_the_log(together: Together) -> None:
    (number,) = together.active
    member = together.members[number]
    together.server.lose_responses(number)
    with pytest.raises(RequestTimedOut):
        await member.controller.active_controller.create_topics([NewTopic("orders", 1, 1)])
    together.server.lose_responses(number, lost=False)
    await together.until(lambda: together.all_see(lambda each: "orders" in each.image.topics))


async def test_a_leader_asks_for_an_isr_from_wherever_it_is(together: Together) -> None:
    topic = await orders(together.members[1])
    for partition in topic.partitions:
        leader = together.members[partition.leader].controller
        isr = ((partition.leader, leader.broker_epoch),)
        change = IsrChange(topic.topic_id, partition.index, 0, 0, isr)
        (altered,) = await leader.alter_partitions([change])
        assert not isinstance(altered, KafkaError)
        assert altered.isr == (partition.leader,)
        old = IsrChange(topic.topic_id, partition.index, -1, 1, isr)
        assert isinstance((await leader.alter_partitions([old]))[0], FencedLeaderEpoch)


async def test_an_earlier_incarnation_is_refused(together: Together) -> None:
    topic = await orders(together.members[1])
    (controller,) = together.active
    number = next(each for each in together.members if each != controller)
    member = together.members[number]
    remote = member.controller._remote()
    together.server.expire_node(number)
    await together.until(lambda: member.lost == 1 and member.controller.is_registered)
    with pytest.raises(StaleBrokerEpoch):
        await remote.alter_partitions([IsrChange(topic.topic_id, 0, 0, 0, ((number, -1),))])
    with pytest.raises(StaleBrokerEpoch):
        await remote.allocate_producer_ids()


async def test_a_broker_that_leaves_hands_its_partitions_over_first(together: Together) -> None:
    await orders(together.members[1])
    (controller,) = together.active
    leaving = next(each for each in together.members if each != controller)
    await together.members[leaving].controller.move_leaders_away()
    image = together.members[leaving].state.image
    assert image.brokers[leaving].shutting_down
    assert not image.brokers[leaving].fenced
    partitions = image.topics["orders"].partitions
    assert all(each.leader != leaving and leaving not in each.isr for each in partitions)


async def test_the_controller_can_leave_too(together: Together) -> None:
    await orders(together.members[1])
    (controller,) = together.active
    await together.members[controller].controller.move_leaders_away()
    image = together.members[controller].state.image
    assert all(each.leader not in (controller, -1) for each in image.topics["orders"].partitions)
    await together.stop(controller)
    await together.until(lambda: bool(together.active))


async def test_without_a_controller_a_request_waits_for_one(together: Together) -> None:
    (number,) = together.active
    for each in together.members:
        together.server.cut(each)
    gone = together.members.pop(number)
    asked = next(iter(together.members.values()))
    waiting = asyncio.ensure_future(asked.controller.create_topics([NewTopic("orders", 1, 1)]))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    for each in together.members:
        together.server.heal(each)
    (made,) = await waiting
    assert isinstance(made, TopicImage), made
    together.server.heal(number)
    await gone.controller.stop()


async def test_preferred_leaders_lead_again_after_a_while(together: Together) -> None:
    config = BrokerConfig({"leader.imbalance.check.interval.seconds": "1"})
    for member in together.members.values():
        member.config = config
    (first,) = together.active
    await together.stop(first)
    await together.until(lambda: bool(together.active))  # a new term, with the new interval
    await together.start(first)
    member = together.members[together.active[0]]
    topic = await orders(member)
    led = topic.partitions[0].leader
    other = topic.partitions[0].replicas[1]
    moved = IsrChange(topic.topic_id, 0, 0, 0, ((led, -1), (other, -1)))
    assert not isinstance((await together.members[led].controller.alter_partitions([moved]))[0], KafkaError)
    together.server.expire_node(led)
    await together.until(
        lambda: together.all_see(lambda s: s.image.topics["orders"].partitions[0].leader == other)
    )
    await together.until(lambda: together.members[led].controller.is_registered)
    known = together.members[other].state.image.topics["orders"].partitions[0]
    back = IsrChange(topic.topic_id, 0, known.leader_epoch, known.partition_epoch, ((other, -1), (led, -1)))
    await together.members[other].controller.alter_partitions([back])
    await together.until(
        lambda: together.all_see(lambda each: each.image.topics["orders"].partitions[0].leader == led)
    )
