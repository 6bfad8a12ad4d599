"""Answers of the REST API do not carry secrets, also where they say what is wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.connect.config.keys import HIDDEN
from ottla.connect.config.providers import without_values
from ottla.connect.config.validation import validate
from ottla.connect.herder.requests import Requests
from ottla.connect.plugins import Plugins
from ottla.http.errors import HttpError


async def test_an_error_does_not_show_the_password_that_is_stored() -> None:
    settled = asyncio.Event()
    settled.set()
    stored = {"connector.class": "HttpSink", "connection.password": "hunter2"}
    herder: Any = SimpleNamespace(settled=settled, state=SimpleNamespace(connectors={"c": stored}))
    with pytest.raises(HttpError, match="no connector type") as refused:
        await Requests(herder).put("c", {"connection.password": HIDDEN}, replace=True)
    assert "hunter2" not in refused.value.message


def test_an_error_does_not_show_the_value_of_a_reference(tmp_path: Path) -> None:
    file = tmp_path / "secrets.properties"
    file.write_text("password=hunter2\n")
    config = {
        "name": "c",
        "connector.class": "FileSource",
        "file": "/tmp/in",
        "topic": "t",
        "format": f"${{file:{file}:password}}",
        "tasks.max": f"${{file:{file}:password}}",
    }
    found = validate(Plugins.load([]), config)
    assert found.error_count == 2
    assert "hunter2" not in str(found.as_json()) + found.text()


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("PostgresSink", "connection.url"),
        ("JdbcSink", "connection.driver"),
        ("FileSource", "value.converter"),
        ("FileSource", "transforms"),
        ("FileSource", "predicates"),
    ],
)
def test_no_answer_of_a_validation_has_the_value_of_a_reference(
    monkeypatch: pytest.MonkeyPatch, kind: str, key: str
) -> None:
    """Or whoever may validate a config reads the variables and files of the worker."""
    monkeypatch.setenv("ADDRESS", "hunter2,hunter3")
    config = {"name": "c", "connector.class": kind, "topics": "t", "topic": "t", "file": "/tmp/in"}
    config |= {"connection.url": "jdbc:sqlite:/tmp/nowhere/x.db", key: "${env::ADDRESS}"}
    found = validate(Plugins.load([]), config)
    assert found.error_count
    assert "hunter" not in str(found.as_json()) + found.text()
    assert "${env::ADDRESS}" in found.text()


def test_a_trace_has_references_in_place_of_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("URL", "postgresql://ann:hunter2@db.example:5432/shop")
    config = {"connection.url": "${env::URL}", "table": "shop", "port": "5432", "other": "${env::NO_SUCH}"}
    text = "OperationalError: cannot reach db.example:5432 as ann for shop (hunter2)"
    assert without_values(text, config) == (
        "OperationalError: cannot reach ${env::URL}:5432 as ann for shop (${env::URL})"
    )
    assert without_values(text, {"table": "shop"}) == text
