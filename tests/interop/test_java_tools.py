"""The Java client, through the command-line tools that come with Apache Kafka."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.clients import Client, HasAddress, NewName, Outgoing, values, wait_until
from tests.interop.conftest import Tool

TOOLS = "org.apache.kafka.tools"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(java: Tool, broker: HasAddress) -> Run:
    """Run a tool against the broker."""
    return lambda tool, *arguments, **more: java(
        tool, *arguments, "--bootstrap-server", broker.address, **more
    )


def console_consumer(
    run: Run, topic: str, count: int, *properties: str, offset: str = "earliest"
) -> list[str]:
    printed = [argument for one in properties for argument in ("--formatter-property", f"{one}=true")]
    where = ("--topic", topic, "--partition", "0", "--offset", offset, "--max-messages", str(count))
    out = run(f"{TOOLS}.consumer.ConsoleConsumer", *where, "--timeout-ms", "30000", *printed)
    return out.stdout.splitlines()


@pytest.mark.parametrize("codec", CODECS)
def test_what_the_console_producer_sends_every_reader_gets(
    codec: str, run: Run, client: Client, topic: str
) -> None:
    lines = [f"h:{index}\tkey {index}:value {index} {'again ' * 40}" for index in range(20)]
    properties = ("parse.key=true", "parse.headers=true", "key.separator=:")
    arguments = [argument for one in properties for argument in ("--reader-property", one)]
    run(
        *(f"{TOOLS}.ConsoleProducer", "--topic", topic, "--compression-codec", codec),
        *arguments,
        text="\n".join(lines),
    )
    with client.consumer() as consumer:
        received = consumer.read((topic, 0), 0, 20)
    assert [(one.key, one.value, one.headers) for one in received] == [
        (b"key %d" % at, b"value %d " % at + b"again " * 40, (("h", b"%d" % at),)) for at in range(20)
    ]


def test_the_console_consumer_reads_every_codec_from_any_offset(
    run: Run, client: Client, new_name: NewName
) -> None:
    topic = client.create_topic(new_name())
    for codec in CODECS:
        with client.producer(codec=codec) as producer:
            producer.send(topic, [Outgoing(codec.encode() * 50, b"key", (("h", b"x"),), partition=0)] * 3)
    out = console_consumer(run, topic, 15, "print.key", "print.offset", "print.partition", "print.headers")
    assert out == [
        f"Partition:0\tOffset:{offset}\th:x\tkey\t{CODECS[offset // 3] * 50}" for offset in range(15)
    ]
    assert console_consumer(run, topic, 2, offset="4") == ["gzip" * 50, "gzip" * 50]


def test_kafka_topics_creates_describes_grows_lists_and_deletes(run: Run, new_name: NewName) -> None:
    topics, topic = f"{TOOLS}.TopicCommand", new_name()
    run(topics, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=86400000")
    described = run(topics, "--describe", "--topic", topic).stdout
    assert re.search(
        rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 1", described
    )
    assert "retention.ms=86400000" in described
    assert len(re.findall(r"Partition: \d+\tLeader: \d+\tReplicas: \d+\tIsr: \d+", described)) == 2

    again = run(topics, "--create", "--topic", topic, must_succeed=False)
    assert again.returncode != 0
    assert "TopicExistsException" in again.stderr

    run(topics, "--alter", "--topic", topic, "--partitions", "5")
    wait_until(
        lambda: "PartitionCount: 5" in run(topics, "--describe", "--topic", topic).stdout, "five partitions"
    )
    assert topic in run(topics, "--list").stdout.splitlines()
    run(topics, "--delete", "--topic", topic)
    wait_until(lambda: topic not in run(topics, "--list").stdout.splitlines(), "the topic to be gone")


def test_kafka_configs_describes_and_alters_topics(run: Run, topic: str) -> None:
    configs = ("kafka.admin.ConfigCommand", "--entity-type", "topics", "--entity-name", topic)
    run(*configs, "--alter", "--add-config", "segment.bytes=2000000,cleanup.policy=[compact,delete]")
    described = run(*configs, "--describe").stdout
    assert "cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:" in described
    assert (
        "segment.bytes=2000000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=2000000, "
        "DEFAULT_CONFIG:log.segment.bytes=1073741824}" in described
    )
    run(*configs, "--alter", "--delete-config", "segment.bytes")
    assert "segment.bytes" not in run(*configs, "--describe").stdout
    everything = run(*configs, "--describe", "--all").stdout
    assert "segment.bytes=1073741824 sensitive=false" in everything
    assert "max.message.bytes=1048588 sensitive=false" in everything

    bad = run(*configs, "--alter", "--add-config", "segment.bites=1", must_succeed=False)
    assert bad.returncode != 0
    assert "segment.bites" in bad.stdout + bad.stderr


def test_kafka_configs_describes_and_alters_the_broker(run: Run, client: Client) -> None:
    configs = ("kafka.admin.ConfigCommand", "--entity-type", "brokers")
    mine = (*configs, "--entity-name", str(client.broker_id()))
    assert "message.max.bytes=1048588" in run(*mine, "--describe", "--all").stdout
    run(*mine, "--alter", "--add-config", "log.retention.ms=36000000")
    assert "log.retention.ms=36000000" in run(*mine, "--describe").stdout
    run(*mine, "--alter", "--delete-config", "log.retention.ms")
    run(*configs, "--entity-default", "--alter", "--add-config", "log.retention.ms=72000000")
    assert "log.retention.ms=72000000" in run(*configs, "--entity-default", "--describe").stdout
    run(*configs, "--entity-default", "--alter", "--delete-config", "log.retention.ms")


def test_kafka_get_offsets_and_kafka_delete_records(
    run: Run, client: Client, new_name: NewName, tmp_path: Path
) -> None:
    topic = client.create_topic(new_name(), partitions=2, configs={"retention.ms": "-1"})
    start_ms = 1_700_000_000_000
    with client.producer() as producer:
        producer.send(topic, [Outgoing(b"x", timestamp_ms=start_ms + at) for at in (0, 10, 30, 20)])

    def offsets(time: str) -> list[str]:
        return run(f"{TOOLS}.GetOffsetShell", "--topic", topic, "--time", time).stdout.splitlines()

    assert offsets("latest") == [f"{topic}:0:4", f"{topic}:1:0"]
    assert offsets("earliest") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert f"{topic}:0:2" in offsets("max-timestamp")
    assert f"{topic}:0:1" in offsets(str(start_ms + 5))

    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 3}]}
    wish = tmp_path / "delete.json"
    wish.write_text(json.dumps(wanted))
    deleted = run(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(wish)).stdout
    assert f"partition: {topic}-0\tlow_watermark: 3" in deleted
    assert offsets("earliest") == [f"{topic}:0:3", f"{topic}:1:0"]


def test_kafka_log_dirs_tells_the_size_on_disk(
    run: Run, client: Client, topic: str, broker: HasAddress
) -> None:
    with client.producer() as producer:
        producer.send(topic, values("some bytes", 100))
    out = run(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", topic).stdout
    (described,) = json.loads(out.splitlines()[-1])["brokers"]
    (directory,) = described["logDirs"]
    assert directory["error"] is None
    assert Path(directory["logDir"]) == broker.data
    (partition,) = directory["partitions"]
    size = (broker.data / f"{topic}-0" / f"{0:020}.log").stat().st_size
    assert partition == {"partition": f"{topic}-0", "size": size, "offsetLag": 0, "isFuture": False}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_kafka_producer_perf_test_gets_everything_through(
    acks: str, java: Tool, client: Client, new_name: NewName, broker: HasAddress
) -> None:
    topic = client.create_topic(new_name(), partitions=3)
    out = java(
        f"{TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", "30000", "--record-size", "200", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={broker.address}", f"acks={acks}", "compression.type=lz4"),
        *(f"enable.idempotence={str(acks == 'all').lower()}",),
    ).stdout
    assert "30000 records sent" in out
    with client.consumer() as consumer:
        wait_until(
            lambda: sum(consumer.end((topic, partition)) for partition in range(3)) == 30_000,
            "all records to be in the log",
        )


def test_kafka_verifiable_producer_has_everything_acknowledged(run: Run, topic: str) -> None:
    out = run(f"{TOOLS}.VerifiableProducer", "--topic", topic, "--max-messages", "100", "--acks", "-1").stdout
    told = [json.loads(line) for line in out.splitlines()]
    assert sorted(one["offset"] for one in told if one["name"] == "producer_send_success") == list(range(100))
    (summary,) = (one for one in told if one["name"] == "tool_data")
    assert (summary["sent"], summary["acked"]) == (100, 100)


def test_kafka_cluster_and_broker_api_versions_know_us(run: Run, broker: HasAddress) -> None:
    meta = dict(
        line.split("=", 1)
        for line in (broker.data / "meta.properties").read_text().splitlines()
        if "=" in line and not line.startswith("#")
    )
    cluster = run(f"{TOOLS}.ClusterTool", "cluster-id").stdout
    assert f"Cluster ID: {meta['cluster.id']}" in cluster
    versions = run(f"{TOOLS}.BrokerApiVersionsCommand").stdout
    assert broker.address in versions
    assert "Produce(0): 0 to 13 [usable: 13]" in versions
    assert "Fetch(1): 4 to 18 [usable: 18]" in versions
