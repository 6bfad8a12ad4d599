"""The API's description, in OpenAPI, from the declarations of views and actions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ottla import __version__
from ottla.console.table import Action, Parameter, Section, Stream, View

PREFIX = "/api/clusters/{cluster}"
_ERROR = {"$ref": "#/components/schemas/Error"}


def describe(sections: Iterable[Section]) -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for section in sections:
        for view in section.views:
            paths.setdefault(PREFIX + view.path, {})["get"] = _read(section, view)
        for action in section.actions:
            paths.setdefault(PREFIX + action.path, {})["post"] = _change(section, action)
        for stream in section.streams:
            paths.setdefault(PREFIX + stream.path, {})["get"] = _stream(section, stream)
    error = {
        "type": "object",
        "properties": {
            "error_code": {"type": "integer"},
            "message": {"type": "string"},
            "hint": {"type": "string"},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ottla console", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {"Error": error},
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }


def _read(section: Section, view: View) -> dict[str, Any]:
    return {
        "tags": [section.title],
        "summary": view.summary,
        "operationId": _operation("get", view.path),
        "parameters": _parameters(view.path, view.query),
        "responses": _responses("application/json", {"type": "object"}),
        "x-role": view.role.label,
    }


def _stream(section: Section, stream: Stream) -> dict[str, Any]:
    return {
        "tags": [section.title],
        "summary": stream.summary,
        "operationId": _operation("get", stream.path),
        "parameters": _parameters(stream.path, stream.query),
        "responses": _responses("text/event-stream", {"type": "string"}),
        "x-role": stream.role.label,
    }


def _change(section: Section, action: Action) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {each.name: _schema(each) for each in action.fields},
        "required": [each.name for each in action.fields if each.required],
    }
    return {
        "tags": [section.title],
        "summary": action.summary,
        "operationId": _operation("post", action.path),
        "parameters": _parameters(action.path, action.query),
        "requestBody": {"content": {"application/json": {"schema": schema}}},
        "responses": _responses("application/json", {"type": "object"}),
        "x-role": action.role.label,
    }


def _parameters(path: str, query: Iterable[Parameter]) -> list[dict[str, Any]]:
    names = ["cluster", *re.findall(r"{(\w+)}", path)]
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
    ]
    found += [
        {
            "name": each.name,
            "in": "query",
            "required": each.required,
            "description": each.doc,
            "schema": {"type": each.kind},
        }
        for each in query
    ]
    return found


def _schema(field: Parameter) -> dict[str, Any]:
    return {"type": field.kind, "description": field.doc}


def _responses(media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "200": {"description": "What was asked for", "content": {media_type: {"schema": schema}}},
        "default": {"description": "An error", "content": {"application/json": {"schema": _ERROR}}},
    }


def _operation(method: str, path: str) -> str:
    words = re.findall(r"\w+", path)
    return "_".join([method, *words]) if words else f"{method}_overview"
