"""Confluent's REST API: every path, and the codes and words of its errors."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.registry_stage import RunningRegistry

from ottla.testing.local_broker import OttlaBroker


def record(name: str, *fields: str, **defaults: Any) -> str:
    listed: list[dict[str, Any]] = [{"name": each, "type": "int"} for each in fields]
    listed += [{"name": each, "type": "int", "default": value} for each, value in defaults.items()]
    return json.dumps({"type": "record", "name": name, "fields": listed}, separators=(",", ":"))


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        yield running


def register(registry: RunningRegistry, subject: str, schema: str, **more: Any) -> Any:
    answer = registry.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})
    assert answer.status == 200, answer
    return answer.body


def error(answer: Any) -> tuple[int, int, str]:
    return answer.status, answer.body["error_code"], answer.body["message"]


def test_a_schema_is_registered_found_and_deleted(registry: RunningRegistry) -> None:
    first = register(registry, "life-value", record("Life", "a"))
    assert set(first) == {"id", "version", "guid", "schemaType", "schema", "ts", "deleted"}
    assert first["version"] == 1
    assert register(registry, "life-value", record("Life", "a")) == first
    second = register(registry, "life-value", record("Life", "a", b=1))
    assert (second["version"], second["id"]) == (2, first["id"] + 1)
    found = registry.ask("GET", "/subjects/life-value/versions/1")
    assert found.content_type == "application/vnd.schemaregistry.v1+json"
    assert found.body == {"subject": "life-value", **first}
    assert registry.ask("GET", "/subjects/life-value/versions/latest").body["version"] == 2
    assert registry.ask("GET", "/subjects/life-value/versions/-1").body["version"] == 2
    assert registry.ask("GET", "/subjects/life-value/versions/1/schema").body == json.loads(first["schema"])
    by_id = registry.ask("GET", f"/schemas/ids/{first['id']}")
    without_place = {name: first[name] for name in first if name not in ("id", "version")}
    assert by_id.body == {"subject": "life-value", "version": 1, **without_place}
    assert registry.ask("GET", f"/schemas/guids/{first['guid']}").body == without_place
    assert registry.ask("GET", f"/schemas/guids/{first['guid']}/ids").body == [
        {"context": ".", "id": first["id"]}
    ]
    assert registry.ask("GET", f"/schemas/ids/{first['id']}/subjects").body == ["life-value"]
    assert registry.ask("GET", f"/schemas/ids/{first['id']}/versions").body == [
        {"subject": "life-value", "version": 1}
    ]
    looked_up = registry.ask("POST", "/subjects/life-value", {"schema": record("Life", "a")})
    assert looked_up.body == {"subject": "life-value", **first}
    assert registry.ask("GET", "/subjects/life-value/versions").body == [1, 2]
    assert registry.ask("DELETE", "/subjects/life-value/versions/1").body == 1
    assert registry.ask("GET", "/subjects/life-value/versions").body == [2]
    assert registry.ask("GET", "/subjects/life-value/versions?deleted=true").body == [1, 2]
    assert registry.ask("GET", "/subjects/life-value/versions?deletedOnly=true").body == [1]
    assert registry.ask("GET", "/subjects/life-value/versions?deletedAsNegative=true").body == [-1, 2]
    assert registry.ask("GET", f"/schemas/ids/{first['id']}").body["deleted"] is True
    assert registry.ask("DELETE", "/subjects/life-value/versions/1?permanent=true").body == 1
    assert registry.ask("GET", f"/schemas/ids/{first['id']}").status == 404
    assert registry.ask("DELETE", "/subjects/life-value").body == [2]
    assert "life-value" not in registry.ask("GET", "/subjects").body
    assert "life-value" in registry.ask("GET", "/subjects?deleted=true").body
    assert registry.ask("GET", "/subjects?deletedOnly=true&subjectPrefix=life").body == ["life-value"]
    assert registry.ask("DELETE", "/subjects/life-value?permanent=true").body == [2]
    assert registry.ask("GET", "/subjects?deleted=true&subjectPrefix=life").body == []
    again = register(registry, "life-value", record("Life", "z"))
    assert (again["version"], again["id"]) == (1, second["id"] + 1), "ids are not reused"


ERRORS = [
    ("GET", "/subjects/no/versions", None, (404, 40401, "Subject 'no' not found.")),
    ("GET", "/subjects/no/versions/1", None, (404, 40401, "Subject 'no' not found.")),
    ("GET", "/subjects/err/versions/9", None, (404, 40402, "Version 9 not found.")),
    ("GET", "/subjects/err/versions/9/schema", None, (404, 40402, "Version 9 not found.")),
    ("GET", "/schemas/ids/99999", None, (404, 40403, "Schema 99999 not found")),
    ("GET", "/schemas/ids/99999/schema", None, (404, 40403, "Schema 99999 not found")),
    ("GET", "/schemas/ids/99999/subjects", None, (404, 40403, "Schema not found")),
    ("GET", "/schemas/ids/99999/versions", None, (404, 40403, "Schema not found")),
    ("GET", "/schemas/guids/nix", None, (404, 40403, "Schema nix not found")),
    ("POST", "/subjects/no", {"schema": '"int"'}, (404, 40401, "Subject 'no' not found.")),
    ("POST", "/subjects/err", {"schema": '"long"'}, (404, 40403, "Schema not found")),
    ("DELETE", "/subjects/no", None, (404, 40401, "Subject 'no' not found.")),
    (
        "DELETE",
        "/subjects/gone",
        None,
        (404, 40404, "Subject 'gone' was soft deleted.Set permanent=true to delete permanently"),
    ),
    (
        "DELETE",
        "/subjects/err?permanent=true",
        None,
        (404, 40405, "Subject 'err' was not deleted first before being permanently deleted"),
    ),
    (
        "DELETE",
        "/subjects/gone/versions/1",
        None,
        (404, 40406, "Subject 'gone' Version 1 was soft deleted.Set permanent=true to delete permanently"),
    ),
    (
        "DELETE",
        "/subjects/err/versions/1?permanent=true",
        None,
        (404, 40407, "Subject 'err' Version 1 was not deleted first before being permanently deleted"),
    ),
    ("DELETE", "/subjects/err/versions/7", None, (404, 40402, "Version 7 not found.")),
    (
        "GET",
        "/config/no",
        None,
        (404, 40408, "Subject 'no' does not have subject-level compatibility configured"),
    ),
    ("GET", "/mode/no", None, (404, 40409, "Subject 'no' does not have subject-level mode configured")),
    ("DELETE", "/config/no", None, (404, 40401, "Subject 'no' not found.")),
    ("DELETE", "/mode/no", None, (404, 40401, "Subject 'no' not found.")),
    (
        "GET",
        "/subjects/err/versions/first",
        None,
        (
            422,
            42202,
            "The specified version 'first' is not a valid version id. "
            'Allowed values are between [1, 2^31-1] and the string "latest"',
        ),
    ),
    (
        "GET",
        "/subjects/err/versions/0",
        None,
        (
            422,
            42202,
            "The specified version '0' is not a valid version id. "
            'Allowed values are between [1, 2^31-1] and the string "latest"',
        ),
    ),
    (
        "PUT",
        "/config",
        {"compatibility": "SOME"},
        (
            422,
            42203,
            "Invalid compatibility level. Valid values are none, backward, forward, full, "
            "backward_transitive, forward_transitive, and full_transitive",
        ),
    ),
    (
        "PUT",
        "/mode",
        {"mode": "ODD"},
        (422, 42204, "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."),
    ),
    (
        "PUT",
        "/mode",
        {"mode": "IMPORT"},
        (422, 42205, "Cannot import since found existing subjects"),
    ),
    (
        "POST",
        "/subjects/err/versions",
        {"schema": '"int"', "id": 7},
        (422, 42205, "Subject err in context  is not in import mode"),
    ),
    (
        "POST",
        "/subjects/__GLOBAL/versions",
        {"schema": '"int"'},
        (422, 42208, "The specified subject '__GLOBAL' is not a valid."),
    ),
    (
        "POST",
        "/subjects/err/versions",
        {"schema": '"int"', "ruleSet": {"domainRules": [{"name": "1", "type": "CEL", "mode": "WRITE"}]}},
        (422, 42210, "Illegal initial character in rule name: 1"),
    ),
    ("POST", "/subjects/err/versions", {"schema": ""}, None),
    ("POST", "/subjects/new/versions", {"schema": ""}, (422, 42201, "Empty schema")),
    (
        "POST",
        "/subjects/err/versions",
        {"schema": '"int"', "schemaType": "XML"},
        (422, 42201, "Invalid schema type XML"),
    ),
    (
        "POST",
        "/subjects/err/versions",
        {"schema": '"R"', "references": [{"name": "R", "subject": "no", "version": 3}]},
        (422, 42201, 'No schema reference found for subject "no" and version 3'),
    ),
    ("GET", "/no/such/path", None, (404, 404, "HTTP 404 Not Found")),
    ("GET", "/schemas/ids/one", None, (404, 404, "HTTP 404 Not Found")),
    ("PATCH", "/subjects", None, (405, 405, "HTTP 405 Method Not Allowed")),
]


@pytest.fixture(scope="module")
def with_errors(registry: RunningRegistry) -> RunningRegistry:
    register(registry, "err", '"int"')
    register(registry, "gone", '"int"')
    registry.ask("DELETE", "/subjects/gone")
    return registry


@pytest.mark.parametrize(("method", "path", "body", "expected"), ERRORS)
def test_errors_have_confluents_codes_and_words(
    with_errors: RunningRegistry, method: str, path: str, body: Any, expected: tuple[int, int, str] | None
) -> None:
    answer = with_errors.ask(method, path, body)
    if expected is None:
        assert answer.status == 200, "the schema of the version before is taken"
    else:
        assert error(answer) == expected
        assert answer.content_type == "application/vnd.schemaregistry.v1+json"


def test_an_incompatible_schema_is_refused_with_the_reasons(registry: RunningRegistry) -> None:
    register(registry, "compat", record("C", "a"))
    answer = registry.ask("POST", "/subjects/compat/versions", {"schema": record("C", "a", "b")})
    status, code, message = error(answer)
    assert (status, code) == (409, 40901)
    assert message.startswith(
        'Schema being registered is incompatible with an earlier schema for subject "compat", details: ['
    )
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in message
    assert message.endswith("{validateFields: 'false', compatibility: 'BACKWARD'}]")
    path = "/compatibility/subjects/compat/versions"
    body = {"schema": record("C", "a", "b")}
    assert registry.ask("POST", f"{path}/latest", body).body == {"is_compatible": False}
    verbose = registry.ask("POST", f"{path}?verbose=true", body).body
    assert verbose["is_compatible"] is False
    assert "oldSchemaVersion: 1" in " ".join(verbose["messages"])
    fits = {"schema": record("C", "a", b=1)}
    assert registry.ask("POST", f"{path}/1?verbose=true", fits).body == {
        "is_compatible": True,
        "messages": [],
    }
    assert registry.ask("POST", f"{path}/latest", {"schema": "{"}).body["error_code"] == 42201
    assert registry.ask("POST", f"{path}/latest?verbose=true", {"schema": "{"}).body["is_compatible"] is False
    assert registry.ask("PUT", "/config/compat", {"compatibility": "none"}).body == {"compatibility": "NONE"}
    assert registry.ask("POST", "/subjects/compat/versions", body).status == 200


def test_config_is_set_inherited_and_removed(registry: RunningRegistry) -> None:
    assert registry.ask("GET", "/config").body == {"compatibilityLevel": "BACKWARD"}
    body = {"compatibility": "FULL", "normalize": True, "alias": "conf-real", "unknown": 1}
    assert registry.ask("PUT", "/config/conf", body).body == {
        "alias": "conf-real",
        "normalize": True,
        "compatibility": "FULL",
    }
    assert registry.ask("GET", "/config/conf").body["compatibilityLevel"] == "FULL"
    assert registry.ask("PUT", "/config/conf", {"normalize": None}).body == {
        "alias": "conf-real",
        "compatibility": "FULL",
    }
    register(registry, "conf-real", '"int"')
    assert registry.ask("GET", "/subjects/conf/versions/1").body["subject"] == "conf-real"
    listed = registry.ask("GET", "/schemas?subjectPrefix=conf&aliases=true").body
    assert [(each["subject"], each["aliases"]) for each in listed] == [("conf-real", ["conf"])]
    assert registry.ask("GET", "/config/other?defaultToGlobal=true").body == {
        "compatibilityLevel": "BACKWARD"
    }
    assert registry.ask("DELETE", "/config/conf").body["compatibilityLevel"] == "FULL"
    assert registry.ask("GET", "/config/conf").status == 404
    assert registry.ask("PUT", "/config", {"compatibility": "FORWARD"}).status == 200
    assert registry.ask("GET", "/config/other?defaultToGlobal=true").body == {"compatibilityLevel": "FORWARD"}
    assert registry.ask("DELETE", "/config").body == {"compatibilityLevel": "FORWARD"}


def test_a_lenient_policy_lets_optional_properties_be_added(registry: RunningRegistry) -> None:
    def text(*names: str) -> str:
        return json.dumps({"type": "object", "properties": {name: {"type": "string"} for name in names}})

    def wanted(*names: str) -> Any:
        return {"schema": text(*names), "schemaType": "JSON"}

    register(registry, "policy", text("a"), schemaType="JSON")
    path = "/subjects/policy/versions"
    assert registry.ask("POST", path, wanted("a", "b")).body["error_code"] == 40901
    body = {"compatibilityPolicy": "lenient"}
    assert registry.ask("PUT", "/config/policy", body).body == {"compatibilityPolicy": "LENIENT"}
    test = "/compatibility/subjects/policy/versions/latest"
    assert registry.ask("POST", test, wanted("a", "b")).body == {"is_compatible": True}
    assert registry.ask("POST", path, wanted("a", "b")).body["version"] == 2
    refused = registry.ask("PUT", "/config/policy", {"compatibilityPolicy": "LOGICAL"})
    assert (refused.status, refused.body["error_code"]) == (422, 42203)
    assert registry.ask("PUT", "/config/policy", {"compatibilityPolicy": None}).body == {}
    assert registry.ask("POST", path, wanted("a", "b", "c")).body["error_code"] == 40901


def test_reserved_fields_are_kept_free(registry: RunningRegistry) -> None:
    def reserving(*names: str) -> Any:
        return {"metadata": {"properties": {"confluent:reserved": ", ".join(names)}}}

    path = "/subjects/reserved/versions"
    register(registry, "reserved", record("Reserved", "a"), **reserving("b", "c"))
    assert registry.ask("PUT", "/config/reserved", {"validateFields": True}).status == 200
    conflict = registry.ask("POST", path, {"schema": record("Reserved", "a", b=1)})
    assert error(conflict) == (
        409,
        40901,
        'Schema being registered is incompatible with an earlier schema for subject "reserved", details: '
        "[The new schema has field that conflicts with the reserved field b., "
        "{validateFields: 'true', compatibility: 'BACKWARD'}]",
    )
    fewer = {"schema": record("Reserved", "a", d=1), **reserving("c")}
    assert "reserved field b removed from its metadata" in registry.ask("POST", path, fewer).body["message"]
    fits = {"schema": record("Reserved", "a", d=1), **reserving("b", "c", "e")}
    assert registry.ask("POST", path, fits).body["version"] == 2
    first = {"schema": '{"properties":{"$$a":{}}}', "schemaType": "JSON"}
    assert registry.ask("POST", "/subjects/dollars/versions", first).status == 200
    assert registry.ask("PUT", "/config/dollars", {"validateFields": True}).status == 200
    second = {"schema": '{"properties":{"$$a":{},"$$b":{}}}', "schemaType": "JSON"}
    message = "#/properties/$$a: Field names cannot start with $$ prefix"
    assert message in registry.ask("POST", "/subjects/dollars/versions", second).body["message"]


def test_avro_schemas_with_odd_defaults_are_taken_if_they_are_not_to_be_validated(
    registry: RunningRegistry,
) -> None:
    odd = json.dumps(
        {"type": "record", "name": "Odd", "fields": [{"name": "a", "type": "int", "default": ""}]}
    )
    path = "/subjects/odd/versions"
    assert registry.ask("POST", path, {"schema": odd}).body["error_code"] == 42201
    assert registry.ask("PUT", "/config/odd", {"validateNewSchemas": False}).status == 200
    first = registry.ask("POST", path, {"schema": odd})
    assert first.body["version"] == 1
    assert registry.ask("DELETE", "/config/odd").status == 200
    assert registry.ask("POST", path, {"schema": odd}).body == first.body, "it is there already"
    assert registry.ask("POST", "/subjects/odd", {"schema": odd}).body["version"] == 1


def test_modes_protect_and_allow(registry: RunningRegistry) -> None:
    assert registry.ask("GET", "/mode").body == {"mode": "READWRITE"}
    register(registry, "moded", '"int"')
    assert registry.ask("PUT", "/mode/moded", {"mode": "READONLY"}).body == {"mode": "READONLY"}
    refused = (422, 42205, "Subject moded in context  is in read-only mode")
    assert error(registry.ask("POST", "/subjects/moded/versions", {"schema": '"long"'})) == refused
    assert error(registry.ask("DELETE", "/subjects/moded")) == refused
    assert error(registry.ask("PUT", "/config/moded", {"compatibility": "NONE"})) == refused
    register(registry, "moded", '"int"')  # it is there already
    assert registry.ask("DELETE", "/mode/moded").body == {"mode": "READONLY"}
    assert registry.ask("PUT", "/mode/imported", {"mode": "IMPORT"}).body == {"mode": "IMPORT"}
    imported = register(registry, "imported", '"bytes"', id=500, version=7)
    assert (imported["id"], imported["version"]) == (500, 7)
    overwrite = registry.ask("POST", "/subjects/imported/versions", {"schema": '"float"', "id": 500})
    assert error(overwrite) == (
        422,
        42205,
        "Overwrite new schema with id 500 in context  is not permitted.",
    )
    without_id = registry.ask("POST", "/subjects/imported/versions", {"schema": '"float"'})
    assert error(without_id) == (422, 42205, "Subject imported in context  is not in read-write mode")
    assert register(registry, "after-import", '"double"')["id"] == 501


def test_contexts_are_name_spaces(registry: RunningRegistry) -> None:
    answer = registry.ask("POST", "/contexts/staging/subjects/ctx/versions", {"schema": '"string"'})
    assert (answer.body["id"], answer.body["version"]) == (1, 1), "ids begin anew in every context"
    assert registry.ask("GET", "/contexts").body == [".", ".staging"]
    assert registry.ask("GET", "/contexts/staging/subjects").body == [":.staging:ctx"]
    assert registry.ask("GET", "/subjects/:.staging:ctx/versions").body == [1]
    assert registry.ask("GET", "/contexts/.staging/schemas/ids/1").body["schema"] == '"string"'
    assert registry.ask("GET", "/schemas/ids/1?subject=:.staging:").body["subject"] == ":.staging:ctx"
    assert registry.ask("GET", "/subjects/ctx/versions/1").body["subject"] == ":.staging:ctx"
    assert registry.ask("PUT", "/contexts/staging/config", {"compatibility": "NONE"}).status == 200
    assert registry.ask("GET", "/config/:.staging:").body == {"compatibilityLevel": "NONE"}
    assert registry.ask("GET", "/contexts/staging/config/ctx?defaultToGlobal=true").body == {
        "compatibilityLevel": "NONE"
    }
    assert [each["subject"] for each in registry.ask("GET", "/contexts/staging/schemas").body] == [
        ":.staging:ctx"
    ]
    for name in (":.staging:", ".staging"):
        not_empty = registry.ask("DELETE", f"/contexts/{name}")
        assert error(not_empty) == (422, 42211, "The specified context ':.staging:' is not empty.")
    registry.ask("DELETE", "/contexts/staging/subjects/ctx")
    registry.ask("DELETE", "/contexts/staging/subjects/ctx?permanent=true")
    assert registry.ask("DELETE", "/contexts/.staging").status == 204
    assert registry.ask("GET", "/contexts").body == ["."]
    assert registry.ask("GET", "/contexts/a:b/subjects").body["error_code"] == 400


def test_references_hold_what_they_refer_to(registry: RunningRegistry) -> None:
    register(registry, "ref-address", record("Address", "zip"))
    user = json.dumps({"type": "record", "name": "User", "fields": [{"name": "home", "type": "Address"}]})
    references = [{"name": "Address", "subject": "ref-address", "version": 1}]
    found = register(registry, "ref-user", user, references=references)
    assert found["references"] == references
    path = "/subjects/ref-address/versions/1"
    assert registry.ask("GET", f"{path}/referencedby").body == [found["id"]]
    key = "{magic=1,keytype=SCHEMA,subject=ref-address,version=1}"
    assert error(registry.ask("DELETE", path)) == (
        422,
        42206,
        f"One or more references exist to the schema {key}.",
    )
    assert error(registry.ask("DELETE", "/subjects/ref-address"))[1] == 42206
    registry.ask("DELETE", "/subjects/ref-user")
    assert registry.ask("GET", f"{path}/referencedby").body == []
    assert registry.ask("DELETE", path).status == 200
    assert error(registry.ask("DELETE", f"{path}?permanent=true"))[1] == 42206, "it may be restored"


def test_data_contracts_are_kept_merged_and_found(registry: RunningRegistry) -> None:
    rules = {
        "domainRules": [{"name": "r1", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "1"}]
    }
    metadata = {"properties": {"owner": "me"}, "tags": {"a": ["PII"]}}
    first = register(registry, "contract", '"int"', metadata=metadata, ruleSet=rules)
    assert first["metadata"] == {"tags": {"a": ["PII"]}, "properties": {"owner": "me"}}
    assert first["ruleSet"]["domainRules"][0]["disabled"] is False
    assert register(registry, "contract", '"int"')["version"] == 1, "what is not said is taken over"
    second = register(registry, "contract", '"int"', metadata={"properties": {"owner": "you"}})
    assert (second["version"], second["ruleSet"]) == (2, first["ruleSet"])
    assert second["id"] != first["id"]
    found = registry.ask("GET", "/subjects/contract/metadata?key=owner&value=me")
    assert found.body["version"] == 1
    config = {"overrideMetadata": {"properties": {"team": "core"}}}
    assert registry.ask("PUT", "/config/contract", config).body == config
    third = register(registry, "contract", '"int"', metadata={"properties": {"owner": "her"}})
    assert third["metadata"]["properties"] == {"owner": "her", "team": "core"}
    assert [
        each["version"] for each in registry.ask("GET", "/schemas?subjectPrefix=contract&ruleType=CEL").body
    ] == [
        1,
        2,
        3,
    ]
    tagged = registry.ask(
        "POST", "/subjects/contract/versions/3/tags", {"newVersion": 4, "rulesToRemove": ["r1"]}
    )
    assert tagged.status == 200, tagged
    assert tagged.body["metadata"]["properties"]["confluent:version"] == "4"


def test_lists_are_filtered_and_paged(registry: RunningRegistry) -> None:
    for number in range(5):
        register(registry, f"page-{number}", '"int"')
    register(registry, "page-0", '["null","int"]')
    names = [f"page-{number}" for number in range(5)]
    assert registry.ask("GET", "/subjects?subjectPrefix=page").body == names
    assert registry.ask("GET", "/subjects?subjectPrefix=page&offset=1&limit=2").body == names[1:3]
    listed = registry.ask("GET", "/schemas?subjectPrefix=page&latestOnly=true").body
    assert [(each["subject"], each["version"]) for each in listed][:2] == [("page-0", 2), ("page-1", 1)]
    assert len(registry.ask("GET", "/schemas?subjectPrefix=page").body) == 6
    assert registry.ask("GET", "/subjects/page-0/versions?limit=1").body == [1]


def test_the_server_says_who_it_is(registry: RunningRegistry) -> None:
    assert registry.ask("GET", "/").body == {}
    assert registry.ask("GET", "/schemas/types").body == ["JSON", "PROTOBUF", "AVRO"]
    scope = registry.ask("GET", "/v1/metadata/id").body["scope"]
    assert scope["clusters"]["schema-registry-cluster"] == "schema-registry"
    assert scope["clusters"]["kafka-cluster"]
    assert "version" in registry.ask("GET", "/v1/metadata/version").body
    assert registry.ask("GET", "/v1/metadata/id").body["id"] == ""
    assert registry.ask("GET", "/v1/metadata/deployment").body == {"attributes": []}


@pytest.mark.parametrize("path", ["/subjects", "/subjects/", "/schemas/types/", "/config/", "/schemas"])
def test_head_and_a_slash_at_the_end(registry: RunningRegistry, path: str) -> None:
    got = registry.ask("GET", path)
    head = registry.ask("HEAD", path)
    assert (got.status, head.status, head.body) == (200, 200, None)
    assert head.content_type == got.content_type == "application/vnd.schemaregistry.v1+json"


def test_media_types(registry: RunningRegistry) -> None:
    for accept in ("application/json", "application/vnd.schemaregistry+json"):
        assert registry.ask("GET", "/subjects", accept=accept).content_type == accept
    weighted = "application/json; q=0.5, application/vnd.schemaregistry.v1+json"
    assert registry.ask("GET", "/subjects", accept=weighted).content_type.endswith("v1+json")
    assert registry.ask("GET", "/subjects", accept="text/html").status == 406
    path, body = "/subjects/media/versions", {"schema": '"int"'}
    assert registry.ask("POST", path, body, **{"content-type": "text/plain"}).status == 415
    assert registry.ask("POST", path, body, **{"content-type": "application/json"}).status == 200
    assert registry.ask("POST", path, b"{nix").body["error_code"] == 400
    assert registry.ask("POST", path, b"[]").body["error_code"] == 400
    assert registry.ask("POST", path, b"").status == 422


def test_pages_of_other_sites_and_other_names_are_refused(registry: RunningRegistry) -> None:
    """Nobody logs in here: what a browser on this machine can be made to send is all that a page needs."""
    schema_id = register(registry, "forged", '"int"')["id"]
    copied = {"name": "evil", "config": {"schema.registry.url": "http://evil.example"}}
    page = {"content_type": "", "origin": "http://evil.example"}  # as a Blob without a type is sent
    assert registry.ask("POST", "/exporters", copied, **page).status == 403
    assert registry.ask("GET", "/exporters").body == []
    for path in ("/subjects", f"/schemas/ids/{schema_id}"):
        assert registry.ask("GET", path, host="evil.example:8081").status == 421, "DNS rebinding"
        assert registry.ask("GET", path, host="localhost:8081").status == 200


def test_odd_numbers_and_halves_of_characters_are_the_clients_mistakes(registry: RunningRegistry) -> None:
    digits = "9" * 5_000
    assert registry.ask("GET", f"/schemas/ids/{digits}").status == 404
    assert registry.ask("GET", f"/subjects/odd/versions/{digits}").status == 422
    assert registry.ask("POST", "/subjects/odd/versions", {"schema": '"int"', "id": digits}).status == 400
    assert registry.ask("PUT", "/config/odd", {"alias": "half \ud800"}).status == 400
    assert registry.ask("PUT", "/config/odd", b'{"alias": "half \xed\xa0\x80"}').status == 400
    assert registry.ask("PUT", "/config/odd", {"alias": "whole \U0001f600"}).status == 200


def test_what_one_process_writes_the_other_reads_at_once(
    broker: OttlaBroker, registry: RunningRegistry
) -> None:
    with RunningRegistry(broker.bootstrap_servers) as other:
        for number in range(10):
            writer, reader = (registry, other) if number % 2 else (other, registry)
            written = register(writer, "shared", record("Shared", **{f"f{number}": 1}))
            assert written["version"] == number + 1
            assert reader.ask("GET", "/subjects/shared/versions/latest").body["id"] == written["id"]
            assert reader.ask("GET", f"/schemas/ids/{written['id']}").status == 200
        assert register(other, "names%2Fwith%20slashes", '"int"')["version"] == 1
        assert "names/with slashes" in registry.ask("GET", "/subjects").body


def test_a_schema_is_registered_with_tags(registry: RunningRegistry) -> None:
    entity = {"entityPath": "User.name", "entityType": "sr_field"}
    found = register(
        registry,
        "tags-on-register",
        record("User", "name"),
        schemaTagsToAdd=[{"schemaEntity": entity, "tags": ["PII", "GONE"]}],
        schemaTagsToRemove=[{"schemaEntity": entity, "tags": ["GONE"]}],
    )
    assert json.loads(found["schema"])["fields"][0]["confluent:tags"] == ["PII"]
    wrong = [{"schemaEntity": {**entity, "entityPath": "User.nobody"}, "tags": ["PII"]}]
    body = {"schema": record("User", "name"), "schemaTagsToAdd": wrong}
    answer = registry.ask("POST", "/subjects/tags-on-register/versions", body)
    assert error(answer)[:2] == (422, 42201)


def test_tags_of_the_latest_version_are_propagated(registry: RunningRegistry) -> None:
    def schema(*fields: dict[str, Any]) -> str:
        return json.dumps({"type": "record", "name": "User", "fields": list(fields)})

    tagged = {"name": "ssn", "type": "string", "confluent:tags": ["PII"]}
    gone = {"name": "gone", "type": "string", "default": "", "confluent:tags": ["OLD"]}
    added = {"name": "age", "type": "int", "default": 0}
    registry.ask("POST", "/subjects/propagated/versions", {"schema": schema(tagged, gone)})
    body = {"schema": schema({"name": "ssn", "type": "string"}, added), "propagateSchemaTags": True}
    answer = registry.ask("POST", "/subjects/propagated/versions", body)
    assert answer.status == 200, answer
    found = json.loads(registry.ask("GET", "/subjects/propagated/versions/latest").body["schema"])
    assert [each.get("confluent:tags") for each in found["fields"]] == [["PII"], None]


def test_a_registration_is_answered_in_a_format(registry: RunningRegistry) -> None:
    body = {"schema": 'syntax = "proto3"; message A { string a = 1; }', "schemaType": "PROTOBUF"}
    answer = registry.ask("POST", "/subjects/formatted/versions?format=serialized", body)
    assert base64.b64decode(answer.body["schema"], validate=True)


def test_options_answers_the_methods_of_a_path_as_jax_rs_does(registry: RunningRegistry) -> None:
    answer = registry.ask("OPTIONS", "/subjects")
    assert (answer.status, answer.body, answer.content_type) == (200, "HEAD, GET, OPTIONS", "text/plain")
    assert registry.ask("OPTIONS", "/config/orders").body == "HEAD, GET, PUT, DELETE, OPTIONS"
    assert registry.ask("OPTIONS", "/no/such/path").status == 404
    assert registry.ask("OPTIONS", "/subjects", sec_fetch_site="cross-site").status == 403


def test_lists_without_a_prefix_are_those_of_confluent(registry: RunningRegistry) -> None:
    """Subjects of all contexts, schemas of the default context: with an empty prefix, both."""
    register(registry, ":.listed:there", record("There", "a"))
    register(registry, "here-value", record("Here", "a"))

    def names(path: str) -> set[str]:
        found = registry.ask("GET", path).body
        return {each["subject"] if isinstance(each, dict) else each for each in found}

    both = {":.listed:there", "here-value"}
    assert names("/subjects") & both == names("/subjects?subjectPrefix=:*:") & both == both
    assert names("/schemas?subjectPrefix=:*:&offset=&limit=") & both == both, "empty numbers are not given"
    for path in ("/schemas", "/subjects?subjectPrefix=", "/contexts/./subjects", "/contexts/./schemas"):
        assert names(path) & both == {"here-value"}, path


def test_confluent_version_is_the_version_that_it_says(registry: RunningRegistry) -> None:
    text = record("Versioned", "a")

    def ask(path: str, version: str) -> Any:
        metadata = {"properties": {"confluent:version": version}}
        return registry.ask("POST", f"/subjects/versioned{path}", {"schema": text, "metadata": metadata}).body

    first = register(registry, "versioned", text)
    assert ask("", "1")["id"] == ask("/versions", "1")["id"] == first["id"]
    assert ask("", "3")["error_code"] == 40403
    second = ask("/versions", "3")
    assert second["version"] == 2, "a new version, with its own number"
    assert second["metadata"] == {"properties": {"confluent:version": "2"}}
    assert ask("", "2")["id"] == second["id"]
    assert register(registry, "versioned", text)["id"] in (first["id"], second["id"])


def test_what_is_not_there_is_left_out_or_not_found(registry: RunningRegistry) -> None:
    register(registry, "plain-value", record("Plain", "a"))
    assert "schemaTags" not in registry.ask("GET", "/subjects/plain-value/versions/1?findTags=*").body
    assert error(registry.ask("POST", "/subjects/plain-value", {"schema": ""}))[:2] == (404, 40403)
    assert error(registry.ask("POST", "/subjects/no-value", {"schema": ""}))[:2] == (404, 40401)
