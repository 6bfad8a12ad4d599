"""Associations: which subjects a topic's keys and values belong to, by confluent-kafka's client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("httpx")

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.common.schema_registry_client import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
)
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.integration.registry_stage import RunningRegistry

from ottla.testing.local_broker import OttlaBroker

STRING = '"string"'


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        yield running


def request(name: str, *infos: AssociationCreateOrUpdateInfo) -> AssociationCreateOrUpdateRequest:
    return AssociationCreateOrUpdateRequest(name, "lkc-1", f"id-{name}", "topic", list(infos))


def test_a_serializer_finds_the_subject_of_its_topic(broker: OttlaBroker, registry: RunningRegistry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    schema_id = client.register_schema("shared", Schema(STRING, "AVRO"))
    made = client.create_association(
        request("orders", AssociationCreateOrUpdateInfo(subject="shared", association_type="value"))
    )
    assert [(each.subject, each.lifecycle, each.frozen) for each in made.associations] == [
        ("shared", "WEAK", False)
    ]
    conf = {
        "auto.register.schemas": False,
        "use.latest.version": True,
        "subject.name.strategy.type": "ASSOCIATED",
    }
    serializer = AvroSerializer(client, STRING, conf=conf)
    data = serializer("x", SerializationContext("orders", MessageField.VALUE))
    assert data is not None
    assert int.from_bytes(data[1:5], "big") == schema_id
    with RunningRegistry(broker.bootstrap_servers) as other:
        found = SchemaRegistryClient({"url": other.url}).get_associations_by_resource_name("orders", "lkc-1")
        assert [(each.subject, each.resource_id) for each in found] == [("shared", "id-orders")]
    listed = registry.ask("GET", "/schemas?lifecycle=WEAK&associationType=value&subjectPrefix=shared").body
    assert [each["associations"][0]["resourceName"] for each in listed] == ["orders"]
    assert registry.ask("GET", "/schemas?lifecycle=NONE&subjectPrefix=shared").body == []
    assert registry.ask("DELETE", "/subjects/shared").body["error_code"] == 40904
    assert registry.ask("DELETE", "/subjects/shared/versions/1").body["error_code"] == 40907
    client.delete_associations("id-orders")
    assert client.get_associations_by_resource_name("orders", "-") == []
    free = registry.ask("GET", "/schemas?lifecycle=NONE&subjectPrefix=shared").body
    assert ["associations" in each for each in free] == [False]
    assert client.get_latest_version("shared").schema_id == schema_id


def test_a_strong_association_owns_its_subject(registry: RunningRegistry) -> None:
    ask = registry.ask
    body = {
        "resourceName": "own",
        "resourceNamespace": "lkc-1",
        "resourceId": "id-own",
        "associations": [{"associationType": "value", "schema": {"schema": STRING}}],
    }
    made = ask("POST", "/associations", body)
    assert made.status == 200, made
    subject = ":.lkc-1:own-value"
    found = made.body["associations"][0]
    assert (found["subject"], found["lifecycle"], found["frozen"]) == (subject, "STRONG", True)
    assert ask("GET", f"/associations/subjects/{subject}").body[0]["resourceId"] == "id-own"
    other = {**body, "resourceName": "o2", "resourceId": "id-o2", "associations": [{"subject": subject}]}
    assert ask("POST", "/associations", other).body["error_code"] == 40905
    assert ask("DELETE", "/associations/resources/id-own").body["error_code"] == 40908
    assert ask("DELETE", "/associations/resources/id-own?cascadeLifecycle=true&dryRun=true").status == 204
    assert ask("DELETE", "/associations/resources/id-own?cascadeLifecycle=true").status == 204
    assert ask("GET", f"/subjects/{subject}/versions").body["error_code"] == 40401
    assert ask("DELETE", "/associations/resources/id-own").body["error_code"] == 40410


def test_what_is_refused(registry: RunningRegistry) -> None:
    ask = registry.ask
    ask("POST", "/subjects/weak/versions", {"schema": STRING})
    body = {"resourceName": "r", "resourceNamespace": "n", "resourceId": "i"}

    def refused(method: str = "POST", path: str = "/associations", **association: object) -> int:
        return int(ask(method, path, {**body, "associations": [association]}).body["error_code"])

    assert ask("POST", "/associations", body).body["error_code"] == 42212
    assert refused() == 42212, "WEAK needs a subject"
    assert refused(subject="nothing") == 40907
    assert refused(subject="weak", associationType="other") == 42212
    assert refused(subject="weak", frozen=True) == 42212
    assert refused(subject="weak", schema={"schema": STRING}) == 42212
    assert refused("PUT", "/associations/resources/i", lifecycle="STRONG") == 42212
    assert ask("POST", "/associations", {**body, "associations": [{"subject": "weak"}]}).status == 200
    assert ask("POST", "/associations", {**body, "associations": [{"subject": "weak"}]}).status == 200
    ask("POST", "/subjects/weak2/versions", {"schema": STRING})
    assert refused(subject="weak2") == 40903
    assert refused("PUT", "/associations/resources/i", subject="weak2") == 42212


def test_a_create_that_was_cut_off_is_repeated(registry: RunningRegistry) -> None:
    ask, subject = registry.ask, ":.lkc-1:again-value"
    association = {"associationType": "value", "schema": {"schema": STRING}}
    body = {"resourceName": "again", "resourceNamespace": "lkc-1", "resourceId": "id-again"}
    ask("POST", f"/subjects/{subject}/versions", {"schema": STRING})  # as far as it came
    for _ in range(2):
        made = ask("POST", "/associations", {**body, "associations": [association]})
        assert (made.status, made.body["associations"][0]["subject"]) == (200, subject), made
    other = {**association, "schema": {"schema": '"bytes"'}}
    assert ask("POST", "/associations", {**body, "associations": [other]}).body["error_code"] == 40903
    put = ask("PUT", "/associations/resources/id-again", {**body, "associations": [other]})
    assert (put.status, put.body["associations"][0]["schema"]["version"]) == (200, 2), put
    reference = {"name": "x", "subject": subject, "version": 1}
    refused = ask("POST", "/subjects/refers/versions", {"schema": STRING, "references": [reference]})
    assert (refused.body["error_code"], "strong association" in refused.body["message"]) == (42205, True)
    invalid = {"associationType": "key", "schema": {"schema": "{"}}
    assert ask("POST", "/associations", {**body, "associations": [invalid]}).body["error_code"] == 42201


def test_batches_answer_for_each_topic(registry: RunningRegistry) -> None:
    ask = registry.ask
    ask("POST", "/subjects/batch/versions", {"schema": STRING})

    def part(name: str, *operations: dict[str, object], **more: object) -> dict[str, object]:
        place = {"resourceName": name, "resourceNamespace": "lkc-2", "resourceId": f"id-{name}"}
        return {**place, "associations": list(operations), **more}

    def mutate(*parts: dict[str, object], query: str = "") -> list[dict[str, object]]:
        answer = ask("POST", f"/associations:batchMutate{query}", {"requests": list(parts)})
        assert answer.status == 207, answer
        return list(answer.body["results"])

    weak: dict[str, object] = {"opType": "CREATE", "subject": "batch"}
    own: dict[str, object] = {"opType": "CREATE", "associationType": "key", "schema": {"schema": STRING}}
    plain = {"resourceName": "dry", "resourceNamespace": "lkc-2", "resourceType": "topic"}
    assert mutate(part("dry", weak, resourceId=None), query="?dryRun=true") == [{"result": plain}]
    first, second, third = mutate(part("a", weak), part("b", {"opType": "CREATE"}), part("c", own))
    assert first["result"] == {
        **plain,
        "resourceName": "a",
        "resourceId": "id-a",
        "associations": [
            {"subject": "batch", "associationType": "value", "lifecycle": "WEAK", "frozen": False}
        ],
    }
    assert second["error"] == {
        "error_code": 42212,
        "message": "The association specified an invalid value for property: 'subject', "
        "detail: must be provided for WEAK associations",
    }
    made = third["result"]["associations"][0]  # type: ignore[index]
    assert (made["lifecycle"], made["schema"]["schema"]) == ("STRONG", STRING)

    named = {"resourceName": "c", "resourceNamespace": "lkc-2"}
    asked = [{"resourceId": "id-a"}, named, {"resourceId": "no"}]
    answer = ask("POST", "/associations:batchGet?includeSchemas=true", {"requests": [*asked, {}]})
    found = answer.body["results"]
    assert answer.status == 207
    assert [each["result"].get("resourceName") for each in found[:3]] == ["a", "c", None]
    assert found[0]["result"]["associations"][0]["schema"]["subject"] == "batch"
    assert found[2] == {"result": {"resourceId": "no", "resourceType": "topic"}}
    assert found[3]["error"]["error_code"] == 500

    gone: dict[str, object] = {"opType": "DELETE", "associationType": "key"}
    assert mutate(part("c", gone))[0]["error"]["error_code"] == 40908  # type: ignore[index]
    left = mutate(part("c", {**gone, "cascadeLifecycle": True}), part("no", gone))
    assert ["error" in each for each in left] == [False, False]
    assert ask("GET", "/subjects/:.lkc-2:c-key/versions").status == 404
    ask("POST", "/subjects/:.d:inside/versions", {"schema": STRING})
    within = {"requests": [part("d", {"opType": "CREATE", "subject": "inside"})]}
    (made_there,) = ask("POST", "/contexts/.d/associations:batchMutate", within).body["results"]
    assert made_there["result"]["associations"][0]["subject"] == ":.d:inside"
    for path in ("/associations:batchGet", "/associations:batchMutate"):
        assert ask("POST", path, {"requests": []}).body["error_code"] == 42212
    assert ask("POST", "/associations:batchMutate", {"requests": [part("a", {})]}).status == 400
