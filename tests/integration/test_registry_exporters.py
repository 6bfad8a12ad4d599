"""Exporters keep the schemas of one registry in another, which has brokers of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.clients import wait_until
from tests.integration.registry_stage import RunningRegistry

from ottla.cli.main import run
from ottla.testing.local_broker import OttlaBroker

INNER = '{"type":"record","name":"Inner","fields":[{"name":"a","type":"int"}]}'
OUTER = '{"type":"record","name":"Outer","fields":[{"name":"inner","type":"Inner"}]}'


@pytest.fixture(scope="module")
def source() -> Iterator[RunningRegistry]:
    with OttlaBroker() as broker, RunningRegistry(broker.bootstrap_servers) as registry:
        yield registry


@pytest.fixture(scope="module")
def target() -> Iterator[RunningRegistry]:
    with OttlaBroker() as broker, RunningRegistry(broker.bootstrap_servers) as registry:
        yield registry


def register(registry: RunningRegistry, subject: str, schema: str, **more: Any) -> int:
    answer = registry.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})
    assert answer.status == 200, answer
    return int(answer.body["id"])


def state_of(registry: RunningRegistry, name: str) -> str:
    return str(registry.ask("GET", f"/exporters/{name}/status").body["state"])


def versions_of(registry: RunningRegistry, subject: str, query: str = "") -> Any:
    return registry.ask("GET", f"/subjects/{subject}/versions{query}").body


def test_schemas_follow_with_their_ids_versions_references_and_deletions(
    source: RunningRegistry, target: RunningRegistry
) -> None:
    register(target, "other", '"string"')  # ids there are taken already
    register(source, "inner", INNER)
    source.ask("PUT", "/config/outer", {"compatibility": "FULL", "normalize": True})
    reference = {"name": "Inner", "subject": "inner", "version": 1}
    outer = register(source, "outer", OUTER, references=[reference])
    created = source.ask(
        "POST",
        "/exporters",
        {
            "name": "dr",
            "contextType": "CUSTOM",
            "context": "dr",
            "subjects": ["outer"],
            "config": {"schema.registry.url": target.url},
        },
    )
    assert (created.status, created.body) == (200, {"name": "dr"})
    wait_until(lambda: state_of(source, "dr") == "RUNNING", "the first pass")
    copied = target.ask("GET", "/subjects/:.dr:outer/versions/1").body
    assert (copied["id"], copied["schema"]) == (outer, OUTER)
    assert copied["references"][0]["subject"] == ":.dr:inner"
    assert target.ask("GET", "/mode/:.dr:").body == {"mode": "IMPORT"}

    settings = target.ask("GET", "/config/:.dr:outer").body
    assert settings == {"normalize": True, "compatibilityLevel": "FULL"}
    source.ask("DELETE", "/config/outer")
    source.ask("PUT", "/config/outer", {"compatibility": "BACKWARD"})
    wider = OUTER.replace("]}", ',{"name":"b","type":"int","default":0}]}')
    register(source, "outer", wider, references=[reference])
    wait_until(lambda: versions_of(target, ":.dr:outer") == [1, 2], "the second version")
    wait_until(
        lambda: target.ask("GET", "/config/:.dr:outer").body == {"compatibilityLevel": "BACKWARD"},
        "the other config",
    )
    source.ask("DELETE", "/config/outer")
    wait_until(lambda: target.ask("GET", "/config/:.dr:outer").status == 404, "no config")
    source.ask("DELETE", "/subjects/outer/versions/1")
    wait_until(lambda: versions_of(target, ":.dr:outer") == [2], "the soft deletion")
    assert versions_of(target, ":.dr:outer", "?deleted=true") == [1, 2]
    source.ask("DELETE", "/subjects/outer/versions/1?permanent=true")
    wait_until(lambda: versions_of(target, ":.dr:outer", "?deleted=true") == [2], "the deletion for good")
    assert target.ask("GET", "/subjects").body == [":.dr:inner", ":.dr:outer", "other"]


def test_a_paused_exporter_copies_nothing_and_catches_up_when_resumed(
    source: RunningRegistry, target: RunningRegistry
) -> None:
    config = {"schema.registry.url": target.url}
    source.ask(
        "POST", "/exporters", {"name": "p", "contextType": "NONE", "subjects": ["p-*"], "config": config}
    )
    register(source, "p-one", '"int"')
    wait_until(lambda: versions_of(target, "p-one") == [1], "the first")
    assert source.ask("PUT", "/exporters/p/pause").body == {"name": "p"}
    assert state_of(source, "p") == "PAUSED"
    register(source, "p-two", '"long"')
    assert source.ask("PUT", "/exporters/p", {"subjectRenameFormat": "copy-${subject}"}).status == 200
    assert source.ask("PUT", "/exporters/p/resume").status == 200
    wait_until(lambda: versions_of(target, "copy-p-two") == [1], "the second, under its new name")
    assert target.ask("GET", "/subjects/p-two/versions").status == 404
    assert source.ask("DELETE", "/exporters/p").status == 204
    assert source.ask("GET", "/exporters/p").body["error_code"] == 40450


def test_a_registry_that_does_not_answer_is_an_error_with_its_reason(source: RunningRegistry) -> None:
    config = {"schema.registry.url": "http://127.0.0.1:1"}
    source.ask("POST", "/exporters", {"name": "lost", "config": config})
    wait_until(lambda: state_of(source, "lost") == "ERROR", "the error")
    status = source.ask("GET", "/exporters/lost/status").body
    assert "no registry at http://127.0.0.1:1" in status["trace"]
    source.ask("DELETE", "/exporters/lost")


def test_the_command_line(
    source: RunningRegistry, target: RunningRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    def typed(*words: str) -> str:
        assert run(["registry", "exporter", *words, "--url", source.url]) == 0
        return capsys.readouterr().out

    typed("create", "cli", "--to", target.url, "--subject", "cli-*", "--context", "cli")
    wait_until(lambda: "RUNNING" in typed("list"), "the first pass")
    typed("pause", "cli")
    assert json.loads(typed("describe", "cli"))["status"]["state"] == "PAUSED"
    typed("reset", "cli")
    typed("resume", "cli")
    typed("delete", "cli", "--yes")
    assert source.ask("GET", "/exporters/cli").status == 404


def test_schemas_of_others_are_not_touched(source: RunningRegistry, target: RunningRegistry) -> None:
    register(target, "shared", '"double"')
    register(target, "shared-own", '"bytes"')
    register(source, "shared", '"float"')
    config = {"schema.registry.url": target.url}
    source.ask(
        "POST",
        "/exporters",
        {"name": "o", "contextType": "NONE", "subjects": ["shared*"], "config": config},
    )
    wait_until(lambda: state_of(source, "o") == "ERROR", "the refusal")
    trace = source.ask("GET", "/exporters/o/status").body["trace"]
    assert "has another schema as version 1 of shared" in trace
    assert versions_of(target, "shared") == versions_of(target, "shared-own") == [1]
    source.ask("DELETE", "/exporters/o")
