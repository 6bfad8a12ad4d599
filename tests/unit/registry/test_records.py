"""Records as Confluent's registry writes them, read; and ours, as it reads them."""

from __future__ import annotations

import json

import pytest

from ottla.registry.entities import Definition, StoredSchema
from ottla.registry.records import (
    Key,
    KeyType,
    RegistryRecord,
    UnreadableRecord,
    config_record,
    context_record,
    decode,
    delete_subject_record,
    max_id_record,
    mode_record,
    read_schema,
    schema_record,
    tombstone,
)
from ottla.registry.state import RegistryState

THEIRS = [
    (b'{"keytype":"NOOP","magic":0}', None),
    (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
    (
        b'{"keytype":"SCHEMA","subject":"old","version":1,"magic":1}',
        b'{"subject":"old","version":1,"id":1,"schema":"\\"int\\"","deleted":false}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":"new","version":1,"magic":1}',
        b'{"subject":"new","version":1,"id":2,"md5":"2AyXQvJnyvHnMbGWVUpcAg==","schemaType":"JSON",'
        b'"references":[{"name":"r","subject":"old","version":1}],"schema":"{}","deleted":false}',
    ),
    (b'{"keytype":"MODE","subject":"new","magic":0}', b'{"subject":"new","mode":"READONLY"}'),
    (b'{"keytype":"DELETE_SUBJECT","subject":"new","magic":0}', b'{"subject":"new","version":1}'),
    (
        b'{"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}',
        b'{"tenant":"default","context":".x"}',
    ),
    (b'{"keytype":"FUTURE","subject":"new"}', b"{}"),
]


def test_a_topic_of_confluents_is_understood() -> None:
    state = RegistryState()
    for offset, (key, value) in enumerate(THEIRS):
        state.replay(decode(key, value), offset, 5)
    assert state.position == len(THEIRS)
    assert state.configs == {None: {"compatibilityLevel": "FULL"}}
    assert state.modes == {"new": "READONLY"}
    assert list(state.contexts) == [".x"]
    assert [each.deleted for each in state.versions("new", deleted=True)] == [True]
    assert state.referrers("old", 1, deleted=True) == [(".", 2)]
    assert state.referrers("old", 1) == []
    found = state.by_id(1)
    assert found is not None
    assert (found.schema, found.definition.schema_type, found.timestamp) == ('"int"', "AVRO", 5)
    assert found.md5 == Definition('"int"').md5, "records without a hash get one"


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (mode_record(None, "READONLY"), b'{"keytype":"MODE","magic":0}', b'{"mode":"READONLY"}'),
        (
            config_record("s", {"compatibilityLevel": "NONE"}),
            b'{"keytype":"CONFIG","subject":"s","magic":0}',
            b'{"subject":"s","compatibilityLevel":"NONE"}',
        ),
        (tombstone("s", 3), b'{"keytype":"SCHEMA","subject":"s","version":3,"magic":1}', None),
        (
            delete_subject_record("s", 2),
            b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
            b'{"subject":"s","version":2}',
        ),
        (
            context_record(".x"),
            b'{"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}',
            b'{"tenant":"default","context":".x"}',
        ),
        (max_id_record(".", 7), b'{"keytype":"NOOP","magic":0,"context":"."}', b'{"maxId":7}'),
    ],
)
def test_ours_are_written_as_theirs(record: RegistryRecord, key: bytes, value: bytes | None) -> None:
    assert record.encode() == (key, value)
    assert decode(key, value) == record


def test_a_schema_survives_the_log() -> None:
    definition = Definition('"ä"', "AVRO", (), {"properties": {"a": "b"}}, {"domainRules": []})
    schema = StoredSchema("s", 2, 9, definition.md5, definition, deleted=True, timestamp=4)
    key, value = schema_record(schema).encode()
    record = decode(key, value)
    assert record is not None
    assert record.value is not None
    assert read_schema(record.key, record.value, 4) == schema
    assert "schemaType" not in json.loads(value or b""), "Avro is not written, as of old"


@pytest.mark.parametrize("key", [b"", b"nix", b"[]", b"{}", b'{"keytype":"SCHEMA","version":"x"}', None])
def test_what_is_no_record_is_reported(key: bytes | None) -> None:
    with pytest.raises(UnreadableRecord):
        decode(key, b"{}")


def test_what_makes_no_sense_is_skipped() -> None:
    state = RegistryState()
    state.replay(RegistryRecord(Key(KeyType.SCHEMA, "s", 1), {"id": "x"}), 0)
    state.replay(RegistryRecord(Key(KeyType.SCHEMA, "s", 9), None), 1)
    state.replay(None, 2)
    assert (state.position, state.subjects) == (3, {})
