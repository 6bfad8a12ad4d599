"""The consumer protocol (KIP-848) as Kafka's own programs speak it, and its records as they read them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.integration.clients import HasAddress, NewName, Outgoing
from tests.integration.confluent_client import ConfluentClient
from tests.interop.conftest import Tool

from ottla.coordinator.group.record_codec import encode_record
from ottla.coordinator.group.records import (
    ClassicMemberValue,
    ClassicProtocol,
    ConsumerCurrentMemberKey,
    ConsumerCurrentMemberValue,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
    ConsumerRegexKey,
    ConsumerRegexValue,
    ConsumerTargetKey,
    ConsumerTargetMemberKey,
    ConsumerTargetMemberValue,
    ConsumerTargetValue,
    ConsumerTopic,
    ConsumerTopicsKey,
    ConsumerTopicsValue,
    Key,
    StoredPartitions,
    Value,
)
from ottla.coordinator.group.records import Record as GroupRecord
from ottla.protocol.records.records import Record, encode_batch

BROKER_SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "200",
}
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
TOPIC_ID_TEXT = "ABEiM0RVZneImaq7zN3u_w"
CLASSIC = ClassicMemberValue(45_000, (ClassicProtocol("range", b"\x00\x01"),))

RECORDS: list[tuple[Key, Value | None, dict[str, Any] | None]] = [
    (ConsumerGroupKey("g"), ConsumerGroupValue(7, 2**40), {"epoch": 7, "metadataHash": 2**40}),
    (
        ConsumerTopicsKey("g"),
        ConsumerTopicsValue((ConsumerTopic(TOPIC_ID, "orders", 3),)),
        {
            "topics": [
                {
                    "topicId": TOPIC_ID_TEXT,
                    "topicName": "orders",
                    "numPartitions": 3,
                    "partitionMetadata": [],
                }
            ]
        },
    ),
    (
        ConsumerMemberKey("g", "m"),
        ConsumerMemberValue("i", "r", "c", "/h", ("a", "b"), "x.*", 300_000, "range", CLASSIC),
        {
            "instanceId": "i",
            "rackId": "r",
            "clientId": "c",
            "clientHost": "/h",
            "subscribedTopicNames": ["a", "b"],
            "subscribedTopicRegex": "x.*",
            "rebalanceTimeoutMs": 300_000,
            "serverAssignor": "range",
            "classicMemberMetadata": {
                "sessionTimeoutMs": 45_000,
                "supportedProtocols": [{"name": "range", "metadata": "AAE="}],
            },
        },
    ),
    (ConsumerTargetKey("g"), ConsumerTargetValue(7), {"assignmentEpoch": 7}),
    (
        ConsumerTargetMemberKey("g", "m"),
        ConsumerTargetMemberValue((StoredPartitions(TOPIC_ID, (0, 2)),)),
        {"topicPartitions": [{"topicId": TOPIC_ID_TEXT, "partitions": [0, 2]}]},
    ),
    (
        ConsumerCurrentMemberKey("g", "m"),
        ConsumerCurrentMemberValue(
            7, 6, 1, (StoredPartitions(TOPIC_ID, (0,)),), (StoredPartitions(TOPIC_ID, (1,)),)
        ),
        {
            "memberEpoch": 7,
            "previousMemberEpoch": 6,
            "state": 1,
            "assignedPartitions": [{"topicId": TOPIC_ID_TEXT, "partitions": [0]}],
            "partitionsPendingRevocation": [{"topicId": TOPIC_ID_TEXT, "partitions": [1]}],
        },
    ),
    (
        ConsumerRegexKey("g", "x.*"),
        ConsumerRegexValue(("x1", "x2"), 12, 1_700_000_000_000),
        {"topics": ["x1", "x2"], "version": 12, "timestamp": 1_700_000_000_000},
    ),
    (ConsumerMemberKey("g", "gone"), None, None),
]


def test_kafka_reads_the_records_of_consumer_groups_as_they_were_meant(java: Tool, tmp_path: Path) -> None:
    encoded = [encode_record(GroupRecord(key, value)) for key, value, _ in RECORDS]
    records = [Record(offset, 1, key, value) for offset, (key, value) in enumerate(encoded)]
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes(encode_batch(records))
    done = java("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    read = re.findall(r"key: (\{.*?\}) payload: (.*)$", done.stdout, re.M)
    assert len(read) == len(RECORDS), done.stdout
    for (_, value, expected), (_, payload) in zip(RECORDS, read, strict=True):
        if expected is None:
            assert payload == "<DELETE>"
        else:
            assert json.loads(payload)["data"] == expected, value


def test_a_java_consumer_reads_and_commits_and_the_tools_describe_its_group(
    java: Tool, client: ConfluentClient, broker: HasAddress, new_name: NewName
) -> None:
    topic, group = client.create_topic(new_name()), new_name()
    with client.producer() as producer:
        producer.send(topic, [Outgoing(b"%d" % number) for number in range(5)])
    read = java(
        CONSOLE,
        *("--bootstrap-server", broker.address, "--topic", topic, "--group", group),
        *("--command-property", "group.protocol=consumer"),
        *("--from-beginning", "--max-messages", "5", "--timeout-ms", "30000"),
    )
    assert read.stdout.split() == ["0", "1", "2", "3", "4"]
    state = java(GROUPS, "--bootstrap-server", broker.address, "--describe", "--group", group, "--state")
    assert re.search(rf"{re.escape(group)} .* uniform +Empty +0", state.stdout), state.stdout
    offsets = java(GROUPS, "--bootstrap-server", broker.address, "--describe", "--group", group)
    lines = [line.split()[1:6] for line in offsets.stdout.splitlines() if line.startswith(group)]
    assert lines == [[topic, "0", "5", "5", "0"]]
