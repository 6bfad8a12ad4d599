"""Writes and reads JSON that a JSON Schema allows, checked with jsonschema-rs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.registry.formats import parse
from ottla.registry.serdes.codecs import JSON, CodecOptions
from ottla.registry.serdes.errors import SerdeError
from ottla.registry.serdes.framing import Frame
from ottla.registry.serdes.rules.field_walks import JsonWalk
from ottla.registry.serdes.rules.fields import Visit


class JsonCodec:
    """Data of one JSON Schema."""

    def __init__(self, text: str, references: Mapping[str, str], options: CodecOptions) -> None:
        self.record_name = parse(JSON, text, references, validate=False).name
        written = options.reader_schema if options.reader_schema is not None else text
        self._validator = _validator(written, references) if options.validate else None
        self._walk = JsonWalk(written, references)

    def encode(self, data: Any) -> tuple[bytes, bytes]:
        """Check data and write it."""
        self._check(data)
        try:
            return b"", json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (ValueError, TypeError) as error:
            raise SerdeError(f"it cannot be written as JSON: {error}") from None

    def from_json(self, data: Any) -> Any:
        """Return data as it is."""
        return data

    def decode(self, frame: Frame) -> Any:
        """Read data and check it."""
        try:
            found = json.loads(frame.data)
        except (ValueError, RecursionError) as error:
            raise SerdeError(f"it is not JSON: {error}") from None
        self._check(found)
        return found

    def transform(self, data: Any, visit: Visit, by_path: Mapping[str, Iterable[str]]) -> Any:
        """Visit the fields of data."""
        return self._walk(data, visit, by_path)

    def _check(self, data: Any) -> None:
        if self._validator is None:
            return
        import jsonschema_rs

        try:
            self._validator.validate(data)
        except jsonschema_rs.ValidationError as error:
            where = "/".join(str(part) for part in error.instance_path)
            raise SerdeError(
                f"it does not fit the schema {self.record_name or ''}: /{where}: {error.message[:300]}"
            ) from None
        except (ValueError, TypeError, RecursionError) as error:
            raise SerdeError(f"it cannot be checked with the schema: {str(error)[:300]}") from None


def _validator(text: str, references: Mapping[str, str]) -> Any:
    import jsonschema_rs

    def retrieve(uri: str) -> Any:
        """Return a referenced schema; nothing is fetched from the network."""
        for name, referenced in references.items():
            if uri == name or uri.endswith("/" + name.removeprefix("./")):
                return json.loads(referenced)
        raise LookupError(f"{uri} is not among the references of the schema")

    schema = json.loads(text)
    if isinstance(schema, dict) and "$schema" not in schema:
        schema = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    try:
        return jsonschema_rs.validator_for(schema, retriever=retrieve)
    except (ValueError, LookupError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise SerdeError(f"the JSON Schema cannot be used: {str(error)[:300]}") from None
