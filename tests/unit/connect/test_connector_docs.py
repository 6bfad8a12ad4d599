"""docs/connectors.md has an example for each connector, which its own validation takes."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from ottla.connect.config.common_keys import SINK_KEYS, SOURCE_KEYS
from ottla.connect.config.validation import validate
from ottla.connect.connector_docs import EXAMPLES, NOTES, example
from ottla.connect.connectors.mirror import MirrorSource
from ottla.connect.plugins import Plugins
from ottla.connect.sdk import SOURCE

CONVERTERS = ("key.converter.", "value.converter.", "header.converter.")
OUTSIDE = ("connection.url", "s3.bucket.name", "database.hostname", "table.whitelist")
"""Where validation asks a server, or a file, that a test does not have."""


@pytest.mark.parametrize("kind", NOTES, ids=lambda kind: kind.__name__)
def test_the_example_of_a_connector_is_a_valid_config(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MirrorSource, "check", lambda config: {})  # it waits for a cluster
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv("TOKEN", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    command, name, *pairs = shlex.split(example(kind).replace("\\\n", ""))[2:]
    config = dict(each.partition("=")[::2] for each in pairs)
    assert (command, config) == ("create", {"connector.class": kind.__name__, **EXAMPLES[kind]})
    common = SOURCE_KEYS if kind.kind == SOURCE else SINK_KEYS
    known = {each.name for each in (*kind.keys, *common)}
    assert {each for each in config if not each.startswith(CONVERTERS)} <= known
    found = validate(Plugins.load([]), {"name": name, **config})
    wrong = {key: each.errors for key, each in found.results.items() if each.errors and key not in OUTSIDE}
    assert not wrong
