"""Encrypted fields and payloads, in our serdes and in confluent-kafka's: each reads what the other wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirReader
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirWriter
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.integration.registry_stage import RunningRegistry

from ottla.common.clock import ManualClock
from ottla.registry.serdes import AvroDeserializer, AvroSerializer, RegistryClient, RuleFailed
from ottla.registry.serdes.rules.encryption import DAY_MS, Encryption, EncryptionFailed
from ottla.testing.local_broker import OttlaBroker

SECRET = "the secret of the local KMS"
USER = json.dumps(
    {
        "type": "record",
        "name": "User",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "ssn", "type": ["null", "string"], "confluent:tags": ["PII"]},
            {"name": "photo", "type": "bytes", "confluent:tags": ["PII"]},
        ],
    }
)
ADA = {"name": "Ada", "ssn": "123-45-6789", "photo": b"\xff\xd8"}
KINDS = [("AES256_GCM", "0"), ("AES128_GCM", "3"), ("AES256_SIV", "0")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with OttlaBroker() as broker, RunningRegistry(broker.bootstrap_servers) as running:
        yield running.url


def ruled(url: str, topic: str, algorithm: str, days: str, *, is_payload: bool = False) -> dict[str, Any]:
    """Register a schema whose rule encrypts; return the rule."""
    rule = {
        "name": "hide",
        "kind": "TRANSFORM",
        "type": "ENCRYPT_PAYLOAD" if is_payload else "ENCRYPT",
        "mode": "WRITEREAD",
        "params": {
            "encrypt.kek.name": f"kek-{topic}",
            "encrypt.kms.type": "local-kms",
            "encrypt.kms.key.id": "one",
            "encrypt.dek.algorithm": algorithm,
            "encrypt.dek.expiry.days": days,
        },
        **({} if is_payload else {"tags": ["PII"]}),
    }
    rules = {"encodingRules" if is_payload else "domainRules": [rule]}
    RegistryClient(url)._ask("POST", f"/subjects/{topic}-value/versions", {"schema": USER, "ruleSet": rules})
    return rule


def written(url: str, topic: str, secret: str = SECRET) -> bytes:
    writer = AvroSerializer(url, use_latest_version=True, local_kms_secret=secret)
    found = writer.serialize_record(topic, "value", ADA, [])
    assert found is not None
    return found


def read(url: str, topic: str, data: bytes, **options: Any) -> Any:
    reader = AvroDeserializer(url, **({"local_kms_secret": SECRET} | options))
    return reader.deserialize_record(topic, "value", data, [])


@pytest.mark.parametrize(("algorithm", "days"), KINDS)
def test_tagged_fields_are_encrypted_for_those_who_know_the_secret(
    url: str, algorithm: str, days: str
) -> None:
    topic = f"own-{algorithm}"
    ruled(url, topic, algorithm, days)
    data = written(url, topic)
    assert b"Ada" in data
    assert b"123-45" not in data
    assert ADA["photo"] not in data
    assert read(url, topic, data) == ADA
    assert (written(url, topic) == data) is (algorithm == "AES256_SIV"), "only AES-SIV is deterministic"
    with pytest.raises(RuleFailed, match="another key"):
        read(url, topic, data, local_kms_secret="a guess")
    hidden = read(url, topic, data, ignore_rules=True)
    assert (hidden["name"], hidden["ssn"] == ADA["ssn"]) == ("Ada", False)


def test_without_the_secret_or_its_kms_nothing_is_written_in_plain_text(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ruled(url, "guarded", "AES256_GCM", "0")
    monkeypatch.delenv("LOCAL_SECRET", raising=False)
    with pytest.raises(RuleFailed, match="LOCAL_SECRET"):
        written(url, "guarded", "")
    body = {"name": "cloud", "kmsType": "aws-kms", "kmsKeyId": "arn"}
    keys = RegistryClient(url)
    assert keys.add_key(body) is not None
    with pytest.raises(EncryptionFailed, match="aws-kms is not supported"):
        Encryption(keys, SECRET).encrypt({"params": {"encrypt.kek.name": "cloud"}}, "s", "x")


def test_an_expired_key_is_followed_by_another_and_stays_readable(url: str) -> None:
    rule = ruled(url, "rotated", "AES256_GCM", "1")
    clock = ManualClock()
    encryption = Encryption(RegistryClient(url), SECRET, clock)
    first = encryption.encrypt(rule, "rotated-value", b"old")
    assert (first[:1], first[1:5]) == (b"\0", b"\0\0\0\1")
    created = RegistryClient(url).key("kek-rotated", "deks", "rotated-value", "versions", 1)
    assert created is not None
    clock.now_ms = created["ts"] + 2 * DAY_MS
    second = encryption.encrypt(rule, "rotated-value", b"new")
    assert second[1:5] == b"\0\0\0\2"
    reader = Encryption(RegistryClient(url), SECRET)
    assert [reader.decrypt(rule, "rotated-value", each) for each in (first, second)] == [b"old", b"new"]


@pytest.fixture(scope="module")
def theirs() -> RuleRegistry:
    """The executors of confluent-kafka, in a registry of their own: the global one outlives this file."""
    pytest.importorskip("tink", reason="confluent-kafka encrypts with tink: pip install tink hkdf")
    pytest.importorskip("hkdf")
    from confluent_kafka.schema_registry.rules.encryption import encrypt_executor
    from confluent_kafka.schema_registry.rules.encryption.localkms.local_driver import LocalKmsDriver

    LocalKmsDriver.register()
    rules = RuleRegistry()
    rules.register_executor(encrypt_executor.FieldEncryptionExecutor())
    rules.register_executor(encrypt_executor.EncryptionExecutor())
    return rules


@pytest.mark.parametrize("is_payload", [False, True], ids=["fields", "payload"])
@pytest.mark.parametrize(("algorithm", "days"), KINDS)
def test_confluent_reads_what_we_write_and_the_reverse(
    url: str, theirs: RuleRegistry, algorithm: str, days: str, is_payload: bool
) -> None:
    topic = f"both-{algorithm}-{'payload' if is_payload else 'fields'}"
    ruled(url, topic, algorithm, days, is_payload=is_payload)
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    client, secret = SchemaRegistryClient({"url": url}), {"secret": SECRET}
    place = SerializationContext(topic, MessageField.VALUE)
    data = written(url, topic)
    assert b"123-45" not in data
    assert (b"Ada" in data) is not is_payload
    reader = TheirReader(client, conf={"use.latest.version": True}, rule_conf=secret, rule_registry=theirs)
    assert reader(data, place) == ADA
    writer = TheirWriter(client, USER, conf=conf, rule_conf=secret, rule_registry=theirs)
    their_data = writer(dict(ADA), place)  # it changes what it is given
    assert their_data is not None
    assert b"123-45" not in their_data
    assert read(url, topic, their_data) == ADA
