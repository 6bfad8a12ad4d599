"""Lists cost what is on their page, not what there is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.datastructures import Headers, QueryParams

from ottla.http.app import Request
from ottla.registry.entities import Definition, StoredSchema
from ottla.registry.rest.schemas import SchemaRoutes
from ottla.registry.state import RegistryState


class Registry:
    """A registry with as many subjects as a test wants."""

    def __init__(self, subjects: int) -> None:
        self.state = RegistryState()
        definition = Definition('"int"')
        for number in range(subjects):
            name = f"s{number:04}"
            self.state.subjects[name] = {1: StoredSchema(name, 1, 1, definition.md5, definition)}

    async def fresh(self) -> RegistryState:
        return self.state


async def test_only_the_schemas_of_the_page_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = 0
    as_json = StoredSchema.as_json

    def counted(schema: StoredSchema, **options: bool) -> Any:
        nonlocal shown
        shown += 1
        return as_json(schema, **options)

    monkeypatch.setattr(StoredSchema, "as_json", counted)
    registry: Any = Registry(3_000)
    request = Request("GET", [], Headers(), QueryParams("offset=2&limit=3"))
    answer = await SchemaRoutes(registry).list_schemas(request)
    assert [each["subject"] for each in json.loads(answer.body)] == ["s0002", "s0003", "s0004"]
    assert shown == 5
