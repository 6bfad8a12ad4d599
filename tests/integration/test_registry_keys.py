"""The DEK registry: confluent-kafka's client, unmodified, and every path."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

pytest.importorskip("httpx")

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.rules.encryption.dek_registry.dek_registry_client import (
    DekAlgorithm,
    DekRegistryClient,
)
from tests.integration.registry_stage import RunningRegistry

from ottla.testing.local_broker import OttlaBroker

KEKS = "/dek-registry/v1/keks"


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        yield running


def test_their_client_keeps_keys_and_another_process_has_them(
    broker: OttlaBroker, registry: RunningRegistry
) -> None:
    client = DekRegistryClient({"url": registry.url})
    kek = client.register_kek("orders", "aws-kms", "arn:aws:key", kms_props={"a": "b"}, doc="for orders")
    assert (kek.name, kek.kms_type, kek.doc) == ("orders", "aws-kms", "for orders")
    dek = client.register_dek("orders", "orders-value", "c2VjcmV0", DekAlgorithm.AES256_GCM, 1)
    assert dek.encrypted_key_material == "c2VjcmV0"
    client.register_dek("orders", "orders-value", "c2VjcmV1", DekAlgorithm.AES256_GCM, 2)
    with RunningRegistry(broker.bootstrap_servers) as other:
        fresh = DekRegistryClient({"url": other.url})
        assert fresh.get_kek("orders").kms_key_id == "arn:aws:key"
        latest = fresh.get_dek("orders", "orders-value", version=-1)
        assert (latest.version, latest.encrypted_key_material) == (2, "c2VjcmV1")
        with pytest.raises(SchemaRegistryError) as caught:
            fresh.register_dek("orders", "orders-value", "other", DekAlgorithm.AES256_GCM, 2)
        assert (caught.value.http_status_code, caught.value.error_code) == (409, 40971)


def test_the_topic_has_confluents_records(broker: OttlaBroker, registry: RunningRegistry) -> None:
    registry.ask("POST", KEKS, {"name": "stored", "kmsType": "local-kms", "kmsKeyId": "x"})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "look"})
    consumer.assign([TopicPartition("_dek_registry_keys", 0, 0)])
    found = {}
    while '"stored"' not in str(found):
        message = consumer.poll(10)
        assert message is not None
        found[message.key().decode()] = json.loads(message.value())
    consumer.close()
    assert found['{"type":"KEK","tenant":"default","name":"stored"}'] == {
        "type": "KEK",
        "name": "stored",
        "kmsType": "local-kms",
        "kmsKeyId": "x",
        "kmsProps": {},
        "shared": False,
        "deleted": False,
    }


def test_keys_are_deleted_softly_first_and_return(registry: RunningRegistry) -> None:
    ask = registry.ask
    body = {"name": "life", "kmsType": "local-kms", "kmsKeyId": "x"}
    assert ask("POST", KEKS, body).status == 200
    assert ask("POST", KEKS, body).body["error_code"] == 40971
    deks = f"{KEKS}/life/deks"
    assert ask("POST", deks, {"subject": "s"}).body["error_code"] == 42271, "no encryptedKeyMaterial"
    assert ask("POST", f"{deks}/a%2Fb", {"encryptedKeyMaterial": "m"}).body["subject"] == "a/b"
    assert ask("GET", deks).body == ["a/b"]
    assert ask("GET", f"{deks}/a%2Fb/versions").body == [1]
    assert ask("DELETE", f"{KEKS}/life").body["error_code"] == 42272
    assert ask("DELETE", f"{deks}/a%2Fb?permanent=true").body["error_code"] == 40471
    assert ask("DELETE", f"{deks}/a%2Fb/versions/1").status == 204
    assert ask("GET", f"{deks}/a%2Fb").body["error_code"] == 40470
    assert ask("GET", f"{deks}/a%2Fb?deleted=true").body["deleted"] is True
    assert ask("DELETE", f"{KEKS}/life").status == 204
    assert ask("POST", f"{deks}/a%2Fb/undelete").body["error_code"] == 40472
    assert ask("POST", f"{KEKS}/life/undelete").status == 204
    assert ask("POST", f"{deks}/a%2Fb/versions/1/undelete").status == 204
    assert ask("GET", f"{deks}/a%2Fb/versions/latest").body["encryptedKeyMaterial"] == "m"
    assert ask("DELETE", f"{deks}/a%2Fb").status == 204
    assert ask("DELETE", f"{deks}/a%2Fb?permanent=true").status == 204
    assert ask("DELETE", f"{KEKS}/life").status == 204
    assert ask("DELETE", f"{KEKS}/life?permanent=true").status == 204
    assert ask("GET", f"{KEKS}/life?deleted=true").body["error_code"] == 40470


def test_keks_are_changed_and_listed(registry: RunningRegistry) -> None:
    ask = registry.ask
    ask("POST", KEKS, {"name": "many", "kmsType": "AWS", "kmsKeyId": "x"})
    assert ask("GET", f"{KEKS}/many").body["kmsType"] == "aws-kms"
    changed = ask("PUT", f"{KEKS}/many", {"doc": "d", "shared": True, "kmsProps": {"p": "q"}}).body
    assert (changed["doc"], changed["shared"], changed["kmsProps"]) == ("d", True, {"p": "q"})
    assert ask("POST", f"{KEKS}/many/deks", {"subject": "s"}).body["error_code"] == 50070
    ask("POST", f"{KEKS}/many/deks", {"subject": "deep-value", "encryptedKeyMaterial": "m"})
    assert "many" in ask("GET", KEKS).body
    assert ask("GET", f"{KEKS}?subjectPrefix=deep").body == ["many"]
    assert ask("POST", KEKS, {"name": "1x", "kmsType": "a", "kmsKeyId": "b"}).body["error_code"] == 42271
    assert ask("PUT", f"{KEKS}/nothing", {"doc": "x"}).body["error_code"] == 40470


def test_subjects_of_keys_are_in_contexts_and_have_aliases(registry: RunningRegistry) -> None:
    ask = registry.ask
    ask("POST", KEKS, {"name": "named", "kmsType": "local-kms", "kmsKeyId": "x"})
    material = {"encryptedKeyMaterial": "m"}
    within = ask("POST", f"/contexts/.a{KEKS}/named/deks/inner", material)
    assert within.body["subject"] == ":.a:inner"
    assert ask("GET", f"/contexts/a{KEKS}/named/deks/inner/versions").body == [1]
    ask("PUT", "/config/short", {"alias": "other", "aliasForDeks": "long"})
    assert ask("POST", f"{KEKS}/named/deks/short", material).body["subject"] == "long"
    assert ask("GET", f"{KEKS}/named/deks").body == [":.a:inner", "long"]


def test_an_elected_process_takes_keys_as_well(broker: OttlaBroker) -> None:
    with (
        RunningRegistry(broker.bootstrap_servers, elected=True) as one,
        RunningRegistry(broker.bootstrap_servers, elected=True) as other,
    ):
        for number, process in enumerate((one, other)):
            body = {"name": f"elected{number}", "kmsType": "local-kms", "kmsKeyId": "x"}
            assert process.ask("POST", KEKS, body).status == 200
        for process in (one, other):
            assert {"elected0", "elected1"} <= set(process.ask("GET", KEKS).body)
