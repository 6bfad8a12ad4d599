"""The options of the source and the sink: Spark's names and precedence, and what is refused."""

from __future__ import annotations

import pytest

from ottla.common.ids import TopicPartition
from ottla.spark.connector_options import CONNECTOR, REFUSED
from ottla.spark.errors import WrongOption
from ottla.spark.options import OPTIONS
from ottla.spark.sink.writing import read_sink_options
from ottla.spark.source.deserializing import split_columns
from ottla.spark.source.options import EARLIEST, LATEST, SourceOptions, read_source_options

BROKER = {"kafka.bootstrap.servers": "localhost:9092"}


def source(*, is_stream: bool = True, **options: str) -> SourceOptions:
    wanted = {} if {"assign", "subscribePattern", "subscribe"} & options.keys() else {"subscribe": "t"}
    return read_source_options({**BROKER, **wanted, **options}, is_stream=is_stream)


def test_defaults_are_those_of_sparks_kafka_source() -> None:
    stream, batch = source(), source(is_stream=False)
    assert (stream.starting.offset, batch.starting.offset, batch.ending.offset) == (LATEST, EARLIEST, LATEST)
    assert stream.fails_on_data_loss
    assert stream.max_delay_ms == 15 * 60_000
    assert stream.max_offsets is stream.min_offsets is stream.min_tasks is None


def test_only_committed_records_are_read_unless_configured_otherwise() -> None:
    assert source().isolation_level == 1
    assert source(**{"kafka.isolation.level": "read_uncommitted"}).isolation_level == 0


def test_upper_and_lower_case_are_the_same() -> None:
    assert source(STARTINGOFFSETS="Earliest").starting.offset == EARLIEST


def test_a_time_for_all_goes_before_times_and_these_before_offsets() -> None:
    by_time = {"startingOffsetsByTimestamp": '{"t": {"0": 5}}'}
    assert source(startingOffsets="earliest", **by_time).starting.times_ms == {TopicPartition("t", 0): 5}
    everything = source(startingOffsets="earliest", startingTimestamp="7", **by_time)
    assert everything.starting.time_ms == 7


def test_topics_are_named_in_exactly_one_way() -> None:
    assert source(subscribe="a, b").topics.names == {"a", "b"}
    assert source(subscribePattern="a.*").topics.pattern == "a.*"
    assert source(assign='{"a": [1]}').topics.partitions == {TopicPartition("a", 1)}
    with pytest.raises(WrongOption, match="is given together with subscribe"):
        source(assign='{"a": [1]}', subscribe="a")
    with pytest.raises(WrongOption, match="subscribe: or assign, or subscribePattern"):
        read_source_options(BROKER, is_stream=True)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"endingOffsets": "latest"}, "a stream does not end"),
        ({"maxOffsetsPerTrigger": "0"}, "must be at least 1"),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "must not be above maxOffsetsPerTrigger",
        ),
        ({"maxTriggerDelay": "soon"}, "must be a time such as 30s"),
        ({"failOnDataLoss": "maybe"}, "must be true or false"),
        ({"subscribePattern": "("}, "is not a regular expression"),
        ({"kafka.enable.auto.commit": "true"}, "progress is kept in Spark's checkpoint"),
        ({"kafka.nonsense": "1"}, r"kafka\.nonsense: unknown option"),
        ({"topic": "x"}, "it is one of the sink"),
        ({"startingOfsets": "latest"}, "did you mean startingOffsets"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(WrongOption, match=complaint):
        source(**options)


def test_without_an_address_nothing_can_be_read() -> None:
    with pytest.raises(WrongOption, match=r"kafka\.bootstrap\.servers: must say where the broker is"):
        read_source_options({"subscribe": "t"}, is_stream=True)


def test_a_sink_is_exactly_once_unless_configured_otherwise() -> None:
    assert read_sink_options(BROKER).is_exactly_once
    assert not read_sink_options({**BROKER, "deliveryGuarantee": "at-least-once"}).is_exactly_once
    for name in ("a/b", "main", "7"):
        with pytest.raises(WrongOption, match="sinkName"):
            read_sink_options({**BROKER, "sinkName": name})


def test_columns_are_read_as_sql_writes_them() -> None:
    assert split_columns("id INT, `ab`: STRING") == {"id": "INT", "ab": "STRING"}
    assert split_columns("m MAP<STRING, INT>, d DECIMAL(10, 2)") == {
        "m": "MAP<STRING, INT>",
        "d": "DECIMAL(10, 2)",
    }
    with pytest.raises(WrongOption, match="must look like"):
        split_columns("id")


def test_every_option_is_declared_once() -> None:
    names = [each.name.lower() for each in OPTIONS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("15m", 900_000),
        ("15 minutes", 900_000),
        ("1 hour 30 minutes", 5_400_000),
        ("interval 2 days", 172_800_000),
        ("250", 250),
        ("10 Seconds", 10_000),
        ("90min", 5_400_000),
    ],
)
def test_a_delay_is_written_in_either_of_sparks_forms(text: str, ms: int) -> None:
    assert source(maxTriggerDelay=text).max_delay_ms == ms


@pytest.mark.parametrize("text", ["15 lightyears", "soon", "minutes", "1.5h"])
def test_another_delay_is_refused(text: str) -> None:
    with pytest.raises(WrongOption, match="maxTriggerDelay: must be a time such as 30s"):
        source(maxTriggerDelay=text)


def test_options_of_the_connector_that_say_what_is_so_are_accepted() -> None:
    said = {"kafka.acks": "all", "kafka.enable.idempotence": "true", "topic": "t"}
    assert read_sink_options({**BROKER, **said}).topic == "t"
    assert read_sink_options({**BROKER, "kafka.acks": "-1"}).is_exactly_once
    other = {"acks": "1", "enable.idempotence": "false", "partitioner.ignore.keys": "true"}
    for name, value in other.items():
        with pytest.raises(WrongOption, match=f"kafka.{name}: cannot be set here"):
            read_sink_options({**BROKER, f"kafka.{name}": value})
    java = {"kafka.client.dns.lookup": "use_all_dns_ips", "kafka.metrics.num.samples": "2"}
    assert source(**java).topics.names == {"t"}
    for name in ("sasl.kerberos.service.name", "sasl.oauthbearer.token.endpoint.url", "security.providers"):
        with pytest.raises(WrongOption, match=f"kafka.{name}: cannot be set here"):
            source(**{f"kafka.{name}": "x"})


def test_offsets_are_asked_for_at_least_as_often_as_the_connector_would() -> None:
    asked = source(**{"fetchOffset.numRetries": "100", "fetchOffset.retryIntervalMs": "2000"})
    assert asked.consumer.default_api_timeout_ms == 200_000
    assert source(**{"fetchOffset.numRetries": "1"}).consumer.default_api_timeout_ms == 60_000


def test_every_option_of_the_connector_is_known_or_refused_by_name() -> None:
    for name, treatment in CONNECTOR.items():
        known = {each.name for each in OPTIONS} | {"kafka.bootstrap.servers", "kafka.group.id"}
        assert (name in known) == (treatment.verdict != REFUSED), name
