"""`ottla produce` and `ottla consume` with a registry."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.registry_stage import RunningRegistry

from ottla.cli.main import run
from ottla.testing.local_broker import OttlaBroker

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "raw", "type": ["null", "bytes"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
TEA = {"id": 7, "raw": "\x00\xff", "price": "4.50", "at": "2026-11-16T12:00:00+00:00"}
PART = 'syntax = "proto3"; message Part { int64 size = 1; bytes raw = 2; }'

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        yield running


@pytest.fixture
def typed(broker: OttlaBroker, registry: RunningRegistry, capsys: pytest.CaptureFixture[str]) -> Typed:
    def type_in(*words: str) -> tuple[int, str, str]:
        code = run([*words, "-b", broker.bootstrap_servers, "--registry", registry.url])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return type_in


def read(typed: Typed, topic: str, *words: str) -> list[Any]:
    code, out, err = typed("consume", topic, "-o", "start", "-e", "-f", "json", *words)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("framing", ["prefix", "header"])
def test_avro_is_typed_and_shown_as_json(typed: Typed, tmp_path: Path, framing: str) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    topic = f"cli-{framing}"
    sent = ("produce", topic, json.dumps(TEA), "--value-schema", str(file), "--framing", framing)
    assert typed(*sent)[0] == 0
    if framing == "prefix":
        assert typed("produce", topic, json.dumps(TEA), "--value-format", "registry")[0] == 0
        assert typed("produce", topic, json.dumps(TEA), "--value-schema", f"{topic}-value")[0] == 0
    shown = read(typed, topic, "--value-format", "registry")
    assert {json.dumps(each["value"]) for each in shown} == {json.dumps(TEA)}
    assert len(shown) == (3 if framing == "prefix" else 1)
    reader = tmp_path / "reader.avsc"
    reader.write_text(json.dumps({**ORDER, "fields": ORDER["fields"][:1]}))
    assert read(typed, topic, "--value-schema", str(reader))[0]["value"] == {"id": 7}


def test_keys_and_values_in_other_formats_and_back_from_json(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "part.proto").write_text(PART)
    (tmp_path / "key.json").write_text('{"type": "integer"}')
    schemas = ("--value-schema", str(tmp_path / "part.proto"), "--key-schema", str(tmp_path / "key.json"))
    assert typed("produce", "cli-part", '{"size": 3, "raw": "AP8="}', "-k", "5", *schemas)[0] == 0
    formats = ("--value-format", "protobuf", "--key-format", "json")
    (shown,) = read(typed, "cli-part", *formats)
    assert (shown["key"], shown["value"]) == (5, {"size": "3", "raw": "AP8="})
    plain = typed("consume", "cli-part", "-o", "start", "-e", "-f", "%k %v\n", *formats)[1]
    assert plain == '5 {"size":"3","raw":"AP8="}\n'


def test_what_does_not_fit_is_refused_and_what_cannot_be_read_is_shown_raw(
    typed: Typed, tmp_path: Path
) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    code, _, err = typed("produce", "cli-bad", "{}", "--value-schema", str(file))
    assert code != 0
    assert "line 1: the value for cli-bad cannot be serialized" in err
    assert typed("produce", "cli-bad", "plain")[0] == 0
    code, out, err = typed("consume", "cli-bad", "-o", "start", "-e", "-f", "%v\n", "--value-format", "avro")
    assert (code, out) == (0, "plain\n")
    assert "cli-bad-0 at offset 0, value not decoded" in err
    code, _, err = typed("produce", "cli-bad", "{}", "--value-schema", "nowhere.avsc")
    assert "there is no file nowhere.avsc" in err


def test_csv_becomes_what_the_schema_says(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {
        "type": "record",
        "name": "Line",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "zip", "type": "string"},
            {"name": "price", "type": ["null", "double"]},
            {"name": "paid", "type": "boolean"},
        ],
    }
    (tmp_path / "line.avsc").write_text(json.dumps(schema))
    rows = b"id,zip,price,paid\n7,01234,4.5,true\n8,20095,,false\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(rows)))
    assert (
        typed(
            "produce",
            "lines",
            "-f",
            "csv",
            "--key-field",
            "id",
            "--value-schema",
            str(tmp_path / "line.avsc"),
        )[0]
        == 0
    )
    code, out, _ = typed(
        "consume", "lines", "-o", "start", "-e", "-f", "%k %v\\n", "--value-format", "registry"
    )
    assert code == 0
    read = [line.split(" ", 1) for line in out.splitlines()]
    assert [(key, json.loads(value)) for key, value in read] == [
        ("7", {"id": 7, "zip": "01234", "price": 4.5, "paid": True}),
        ("8", {"id": 8, "zip": "20095", "price": None, "paid": False}),
    ]
