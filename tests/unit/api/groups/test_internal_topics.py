"""What belongs to the coordinator, clients do not write."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.errors import ErrorCode
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import RequestHeader, encode_request_header
from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.schema.messages import request_class, request_encoder, response_decoder

VERSION = 9


async def test_clients_cannot_produce_to_the_offsets_topic(bench: CoordinatorBench) -> None:
    timeout = timedelta(seconds=1)
    request_type = request_class(ApiKey.PRODUCE, VERSION)
    module = __import__(request_type.__module__, fromlist=["PartitionProduceData", "TopicProduceData"])
    batch = bytes(encode_batch([Record(0, 0, b"key", b"value")]))
    partition = module.PartitionProduceData(index=0, records=batch)
    topic = module.TopicProduceData(name=CONSUMER_OFFSETS_TOPIC, partition_data=(partition,))

    request = request_type(transactional_id=None, acks=-1, timeout=timeout, topic_data=(topic,))
    header = encode_request_header(RequestHeader(ApiKey.PRODUCE, VERSION, 99, "app"))
    frame = header + request_encoder(ApiKey.PRODUCE, VERSION, VERSION)(request)
    reply = bench.dispatcher.handle(bench.client, memoryview(bytearray(frame)))
    assert isinstance(reply, bytes)
    response = response_decoder(ApiKey.PRODUCE, VERSION, VERSION)(reply, 9)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.invalid_topic_exception
    assert bench.records() == []


async def test_the_first_request_for_the_offsets_topic_creates_the_real_one() -> None:
    bench = CoordinatorBench()
    await bench.start()
    module = __import__("kio.schema.metadata.v12.request", fromlist=["MetadataRequestTopic"])
    newest = request_class(ApiKey.METADATA, 13)
    topics = (module.MetadataRequestTopic(topic_id=None, name=CONSUMER_OFFSETS_TOPIC),)
    request = newest(topics=topics, allow_auto_topic_creation=True, include_topic_authorized_operations=False)
    (topic,) = (await bench.ask(request)).topics
    assert (topic.error_code, len(topic.partitions), topic.is_internal) == (ErrorCode.none, 4, True)
    assert bench.cluster.image.topic_overrides(CONSUMER_OFFSETS_TOPIC)["cleanup.policy"] == "compact"
    await bench.stop()
