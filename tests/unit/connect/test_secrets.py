"""Answers of the REST API do not carry secrets, also where they say what is wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.connect.config.keys import HIDDEN
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
