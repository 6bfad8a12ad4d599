import json
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.records import (
    VERSIONS,
    AclCreated,
    AclDeleted,
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ClientQuotaChanged,
    ClusterCreated,
    ConfigChanged,
    ControllerElected,
    DelegationTokenDeleted,
    DelegationTokenSet,
    Endpoint,
    MetadataError,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    ScramCredentialChanged,
    ScramCredentialRemoved,
    ScramSecretCreated,
    TopicCreated,
    TopicDeleted,
    decode_record,
    decode_records,
    encode_record,
    encode_records,
)

numbers = st.integers(-1, 2**31)
texts = st.text(max_size=20)
node_ids = st.lists(st.integers(0, 9), max_size=3).map(tuple)
partition_fields = (
    *(st.uuids(), numbers, numbers, numbers, node_ids, node_ids, numbers),
    *(node_ids, node_ids, node_ids, node_ids),
)
records = st.one_of(
    st.builds(ClusterCreated, texts),
    st.builds(ControllerElected, numbers, numbers),
    st.builds(
        BrokerRegistered,
        numbers,
        numbers,
        st.none() | texts,
        st.lists(st.builds(Endpoint, texts, texts, numbers, texts), max_size=3).map(tuple),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(BrokerChanged, numbers, numbers, st.booleans(), st.booleans()),
    st.builds(BrokerUnregistered, numbers),
    st.builds(TopicCreated, texts, st.uuids()),
    st.builds(TopicDeleted, st.uuids()),
    st.builds(PartitionCreated, *partition_fields),
    st.builds(PartitionChanged, *partition_fields),
    st.builds(ConfigChanged, numbers, texts, texts, st.none() | texts),
    st.builds(ProducerIdsAllocated, numbers),
    st.builds(
        ClientQuotaChanged,
        st.lists(st.tuples(texts, st.none() | texts), max_size=2).map(tuple),
        texts,
        st.none() | st.floats(0.1, 1e12),
    ),
    st.builds(ScramCredentialChanged, texts, texts, texts, texts, texts, numbers),
    st.builds(ScramCredentialRemoved, texts, texts),
    st.builds(ScramSecretCreated, texts),
    st.builds(AclCreated, numbers, texts, numbers, texts, texts, numbers, numbers),
    st.builds(AclDeleted, numbers, texts, numbers, texts, texts, numbers, numbers),
    st.builds(
        DelegationTokenSet,
        *(texts, texts, texts, st.lists(texts, max_size=3).map(tuple), numbers, numbers, numbers),
    ),
    st.builds(DelegationTokenDeleted, texts),
    st.builds(ScramCredentialChanged, texts, texts, texts, texts, texts, numbers),
    st.builds(ScramCredentialRemoved, texts, texts),
    st.builds(ScramSecretCreated, texts),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(records, max_size=5))
def test_records_are_read_back_as_they_were_written(written: list[MetadataRecord]) -> None:
    assert list(decode_records(encode_records(written))) == written


def test_every_type_of_record_is_tried_above() -> None:
    tried = {each for each in VERSIONS if each.__name__ in repr(records)}
    assert tried == set(VERSIONS)


def test_the_encoding_is_one_line_of_json_that_never_changes() -> None:
    record = TopicCreated("orders", UUID(int=5))
    assert encode_record(record) == (
        '{"type":"TopicCreated","v":1,"name":"orders","topic_id":"AAAAAAAAAAAAAAAAAAAABQ"}'
    )
    partition = PartitionCreated(UUID(int=5), 0, 1, 0, (1, 2), (1,), 3)
    assert encode_record(partition) == (
        '{"type":"PartitionCreated","v":1,"topic_id":"AAAAAAAAAAAAAAAAAAAABQ","partition":0,"leader":1,'
        '"leader_epoch":0,"replicas":[1,2],"isr":[1],"partition_epoch":3}'
    )


def test_a_field_that_has_its_default_is_not_written() -> None:
    line = json.loads(encode_record(PartitionCreated(UUID(int=5), 0, 1, 0, (1,), (1,), 0)))
    assert not line.keys() & {"partition_epoch", "elr", "last_known_elr", "adding", "removing"}
    assert decode_record(json.dumps(line)) == PartitionCreated(UUID(int=5), 0, 1, 0, (1,), (1,), 0)


def test_a_field_may_be_written_though_it_has_its_default() -> None:
    line = json.loads(encode_record(PartitionCreated(UUID(int=5), 0, 1, 0, (1,), (1,), 0)))
    assert decode_record(json.dumps(line | {"partition_epoch": 0, "elr": []})) == decode_record(
        json.dumps(line)
    )


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"TopicRenamed","v":1,"name":"orders"}',
        '{"type":"ClusterCreated","v":2,"cluster_id":"c"}',
    ],
)
def test_a_record_of_a_newer_ottla_is_refused_and_not_skipped(line: str) -> None:
    with pytest.raises(MetadataError, match="newer"):
        decode_record(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "not json",
        "[]",
        "7",
        "{}",
        '{"type":"TopicCreated","v":1}',
        '{"type":"TopicCreated","v":1,"name":"orders","topic_id":7}',
        '{"type":"TopicCreated","v":1,"name":"orders","topic_id":"!"}',
        '{"type":"TopicDeleted","v":1,"topic_id":"AAAAAAAAAAAAAAAAAAAABQ","why":"?"}',
        '{"type":"PartitionCreated","v":1,"topic_id":"AAAAAAAAAAAAAAAAAAAABQ","replicas":3}',
    ],
)
def test_what_is_no_record_is_an_error_that_quotes_it(line: str) -> None:
    with pytest.raises(MetadataError, match="metadata record"):
        decode_record(line)
