"""The wire side of what brokers and operators ask of the controller."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.allocate_producer_ids.v0 import AllocateProducerIdsRequest
from kio.schema.alter_partition.v3 import AlterPartitionRequest
from kio.schema.alter_partition.v3.request import BrokerState, PartitionData, TopicData
from kio.schema.alter_partition_reassignments.v1 import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic
from kio.schema.elect_leaders.v2 import ElectLeadersRequest
from kio.schema.elect_leaders.v2.request import TopicPartitions
from kio.schema.envelope.v0 import EnvelopeRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0 import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsTopics
from kio.schema.unregister_broker.v0 import UnregisterBrokerRequest

from ottla.metadata.entities import partition_changed
from ottla.metadata.image import PartitionImage
from ottla.metadata.records import BrokerRegistered, Endpoint
from ottla.protocol.errors import BrokerIdNotRegistered, InvalidRequest, NotController, StaleBrokerEpoch

HERE = (Endpoint("PLAINTEXT", "h", 9092),)


@pytest.fixture(autouse=True)
async def _orders(bench: Any) -> None:
    await bench.create_topic("orders")


def alter(bench: Any, topic_id: UUID, *isr: int, leader_epoch: int = 0, epoch: int | None = None) -> Any:
    members = tuple(BrokerState(broker_id=each, broker_epoch=-1) for each in isr)
    data = PartitionData(
        partition_index=0, leader_epoch=leader_epoch, new_isr_with_epochs=members, partition_epoch=0
    )
    return AlterPartitionRequest(
        broker_id=1,
        broker_epoch=bench.image.brokers[1].epoch if epoch is None else epoch,
        topics=(TopicData(topic_id=topic_id, partitions=(data,)),),
    )


async def test_a_leader_learns_what_its_partition_is(bench: Any) -> None:
    topic_id = bench.image.topics["orders"].topic_id
    response = await bench.ask(alter(bench, topic_id, 1))
    (answer,) = response.topics[0].partitions
    assert response.topics[0].topic_id == topic_id
    assert (answer.error_code, answer.leader_id, answer.isr) == (ErrorCode.none, 1, (1,))
    response = await bench.ask(alter(bench, UUID(int=9), 1))
    assert response.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id
    response = await bench.ask(alter(bench, topic_id, 1, leader_epoch=-1))
    assert response.topics[0].partitions[0].error_code is ErrorCode.fenced_leader_epoch


async def test_an_earlier_incarnation_is_refused_as_a_whole(bench: Any) -> None:
    with pytest.raises(StaleBrokerEpoch):
        await bench.ask(alter(bench, bench.image.topics["orders"].topic_id, 1, epoch=0))


async def test_a_broker_gets_producer_ids(bench: Any) -> None:
    epoch = bench.image.brokers[1].epoch
    first = await bench.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
    second = await bench.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
    assert (first.producer_id_len, second.producer_id_start) == (1000, first.producer_id_start + 1000)
    with pytest.raises(StaleBrokerEpoch):
        await bench.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1))
    with pytest.raises(BrokerIdNotRegistered):
        await bench.ask(AllocateProducerIdsRequest(broker_id=5, broker_epoch=epoch))


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_elections_are_answered_partition_by_partition(bench: Any, version: int) -> None:
    partitions = (TopicPartitions(topic="orders", partitions=(0, 7)),)
    request = ElectLeadersRequest(election_type=0, topic_partitions=partitions)
    response = await bench.ask(request, version)
    (topic,) = response.replica_election_results
    codes = [each.error_code for each in topic.partition_result]
    assert codes == [ErrorCode.election_not_needed, ErrorCode.unknown_topic_or_partition]


async def test_an_election_of_all_names_only_those_that_needed_one(bench: Any) -> None:
    response = await bench.ask(ElectLeadersRequest(election_type=0, topic_partitions=None))
    assert response.replica_election_results == ()


async def publish(bench: Any, *changes: Any) -> None:
    """Pretend that another controller has written something."""
    await bench.cluster.publish(bench.image.apply(changes, bench.image.version))


async def test_moves_are_begun_listed_and_refused(bench: Any) -> None:
    def request(partition: int, replicas: tuple[int, ...] | None) -> Any:
        moved = ReassignablePartition(partition_index=partition, replicas=replicas)
        return AlterPartitionReassignmentsRequest(
            topics=(ReassignableTopic(name="orders", partitions=(moved,)),)
        )

    async def code(partition: int, replicas: tuple[int, ...] | None) -> ErrorCode:
        response = await bench.ask(request(partition, replicas))
        assert response.responses[0].name == "orders"
        answer = response.responses[0].partitions[0]
        assert answer.partition_index == partition
        return answer.error_code

    assert await code(0, (1,)) is ErrorCode.none
    assert await code(0, (9,)) is ErrorCode.invalid_replica_assignment
    assert await code(7, (1,)) is ErrorCode.unknown_topic_or_partition
    assert await code(0, None) is ErrorCode.no_reassignment_in_progress


async def test_what_moves_is_listed(bench: Any) -> None:
    everything = ListPartitionReassignmentsRequest(topics=None)
    assert (await bench.ask(everything)).topics == ()
    topic = bench.image.topics["orders"]
    moving = PartitionImage(0, 1, 0, (2, 1), (1,), 1, adding=(2,), removing=(1,))
    await publish(bench, BrokerRegistered(2, 99, None, HERE), partition_changed(topic.topic_id, moving))
    (found,) = (await bench.ask(everything)).topics
    (partition,) = found.partitions
    assert (found.name, partition.replicas) == ("orders", (2, 1))
    assert (partition.adding_replicas, partition.removing_replicas) == ((2,), (1,))
    chosen = tuple(
        ListPartitionReassignmentsTopics(name=name, partition_indexes=(index,))
        for name, index in (("orders", 5), ("nothing", 0))
    )
    assert (await bench.ask(ListPartitionReassignmentsRequest(topics=chosen))).topics == ()


async def test_a_living_broker_is_not_forgotten(bench: Any) -> None:
    with pytest.raises(InvalidRequest, match="stop it first"):
        await bench.ask(UnregisterBrokerRequest(broker_id=1))
    with pytest.raises(BrokerIdNotRegistered):
        await bench.ask(UnregisterBrokerRequest(broker_id=4))


async def test_an_envelope_is_opened_by_the_controller_only(bench: Any) -> None:
    opened: list[tuple[str, bytes]] = []

    async def handle(client: Any, frame: bytes) -> bytes:
        opened.append((client.host, frame))
        return b"answer"

    bench.services.handle_forwarded = handle
    request = EnvelopeRequest(
        request_data=b"request", request_principal=None, client_host_address=b"\x7f\0\0\x01"
    )
    assert (await bench.ask(request)).response_data == b"answer"
    assert opened == [("127.0.0.1", b"request")]
    await bench.controller.stop()
    with pytest.raises(NotController):
        await bench.ask(request)
