"""Kafka Connect's transforms and JSON converter beside ours: the same results for random records."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.interop.connect_records import RandomRecords
from tests.interop.java_process import OPTIONS, compile_java, require_java

from ottla.connect.converters.plain import JsonConverter
from ottla.connect.data.record import RawRecord
from ottla.connect.engine.pipeline import BadRecord, Pipeline
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.errors import DataError, WrongConfig
from ottla.connect.options import DEFAULT_CONVERTERS

CASES = 2_000
LENIENT = (
    "Cannot list fields on non-struct type",  # SetSchemaMetadata of a number
    "objects supported for [mask fields], found: null",
    "objects supported in absence of schema for [mask fields], found: null",
    "Flatten transformation does not support MAP for record with schemas",
    "class java.util.Date does not have corresponding schema type",  # JSON of a time without a schema
    "Invalid type for Date, expected Date",  # Cast of a whole time
    "Invalid type for Time, expected Date",
    "Invalid type for Timestamp, expected Date",
    "Invalid type for Decimal, expected BigDecimal",
    "SchemaBuilderException: Invalid default value",
    "Decimal value has mismatching scale",  # MaskField of a decimal
    "not supported by Connect's data API",  # Flatten after TimestampConverter, without a schema
    "Cannot mask value of type",  # structs and bytes
)
"""What Kafka Connect refuses, and we do not."""
FAR_TIMES = ("too large to convert", "date value out of range")
"""Python has no time after the year 9999."""
WRITERS = {
    nulls: JsonConverter({"replace.null.with.default": str(not nulls).lower()}, is_key=False)
    for nulls in (True, False)
}


def ours(case: dict[str, Any]) -> dict[str, Any]:
    """Return what our classes make of a record."""
    config: dict[str, str] = {"transforms": ",".join(f"t{number}" for number in range(len(case["steps"])))}
    for number, step in enumerate(case["steps"]):
        config |= {f"transforms.t{number}.{key}": value for key, value in step.items()}
    for each in ("key", "value"):
        config[f"{each}.converter"] = "org.apache.kafka.connect.json.JsonConverter"
        config[f"{each}.converter.schemas.enable"] = str(case["schemas"]).lower()
        config[f"{each}.converter.replace.null.with.default"] = str(not case["nulls"]).lower()
    key, value = (None if case[each] is None else case[each].encode() for each in ("key", "value"))
    headers = tuple((name, None if text is None else text.encode()) for name, text in case["headers"])
    raw = RawRecord(case["topic"], case["partition"], case["offset"], case["timestamp"], key, value, headers)
    try:
        pipeline = Pipeline.of(TaskSpec("test", 0, 0, "sink", "", config, DEFAULT_CONVERTERS))
        record = pipeline.incoming(raw)
        if record is None:
            return {"dropped": True}
        topic, writer = case["topic"], WRITERS[case["nulls"]]
        return {
            "topic": record.topic,
            "timestamp": record.timestamp_ms,
            "key": text_of(writer.to_bytes(topic, record.key_schema, record.key)),
            "value": text_of(writer.to_bytes(topic, record.value_schema, record.value)),
            "headers": [
                [each.name, text_of(writer.to_bytes(topic, each.schema, each.value))]
                for each in record.headers
            ],
        }
    except (BadRecord, DataError, WrongConfig) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def text_of(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def parsed(found: dict[str, Any]) -> Any:
    """Return a result with its JSON parsed, and without the text of an error."""
    if "error" in found:
        return "error"

    def value(text: str | None) -> Any:
        return None if text is None else json.dumps(json.loads(text), sort_keys=True)

    shown = {**found}
    for each in ("key", "value"):
        if each in shown:
            shown[each] = value(shown[each])
    shown["headers"] = [[name, value(text)] for name, text in found.get("headers", ())]
    return shown


def is_other(one: dict[str, Any], two: dict[str, Any]) -> bool:
    """Tell whether our result is another one than Kafka's, and none of the known differences."""
    is_known = any(each in one.get("error", "") for each in LENIENT)
    is_far = any(each in two.get("error", "") for each in FAR_TIMES)
    return not is_known and not is_far and bool(parsed(one) != parsed(two))


def theirs(cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return what Kafka Connect's classes make of records."""
    path = compile_java("ConnectRecords", folder)
    done = subprocess.run(
        ["java", *OPTIONS, "-cp", path, "ConnectRecords"],
        input="".join(json.dumps(each) + "\n" for each in cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_transforms_and_json_are_those_of_kafka_connect(tmp_path: Path) -> None:
    require_java()
    generator = RandomRecords(1)
    cases = [generator.case() for _ in range(CASES)]
    different = [
        f"{json.dumps(case)}\n  Kafka {one}\n  ours  {two}"
        for case, one, two in zip(cases, theirs(cases, tmp_path), map(ours, cases), strict=True)
        if is_other(one, two)
    ]
    assert not different, f"{len(different)} of {CASES}:\n" + "\n".join(different[:5])
