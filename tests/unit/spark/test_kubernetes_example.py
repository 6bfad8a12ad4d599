"""The Kubernetes manifests of a pipeline: valid objects, and options that the command has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.cli.pipeline.command import run_command

MANIFEST = Path(__file__).parents[3] / "examples/pipelines/kubernetes/pipeline.yaml"


def objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def test_every_object_is_valid() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    for each in objects():
        validate.validate(each, "1.31", strict=True)


def test_the_driver_is_started_with_options_that_exist_and_names_that_match() -> None:
    found = {each["kind"]: each for each in objects()}
    template = found["StatefulSet"]["spec"]["template"]
    (driver,) = template["spec"]["containers"]
    known = {name for option in run_command.params for name in option.opts}
    assert driver["command"][:3] == ["ottla", "pipeline", "run"]
    for each in driver["args"]:
        assert each.partition("=")[0] in known
    assert found["Service"]["spec"]["selector"] == template["metadata"]["labels"]
    settings = dict(
        each.removeprefix("--set=").split("=", 1) for each in driver["args"] if each.startswith("--set")
    )
    ports = {each["name"]: each["port"] for each in found["Service"]["spec"]["ports"]}
    assert settings["spark.driver.host"] == found["Service"]["metadata"]["name"]
    assert settings["spark.driver.port"] == str(ports["driver"])
    assert settings["spark.driver.blockManager.port"] == str(ports["blocks"])
