"""`ottla profile`: clusters by name, in a file that only its owner reads."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from ottla.cli.support.profiles import find_profile


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ottla" / "profiles.toml"
    monkeypatch.setenv("OTTLA_PROFILES", str(path))
    return path


def test_profiles_are_created_chosen_and_deleted(ottla, file: Path) -> None:
    assert "no profiles; create one" in ottla("profile", "list").err
    assert ottla("profile", "create", "local", "-b", "127.0.0.1:9092").code == 0
    secret = ["-X", "sasl.username=me", "-X", 'sasl.password=a"b\\c']
    assert ottla("profile", "create", "far", "-b", "one:9093,two:9093", *secret).code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert find_profile(None) == {"bootstrap.servers": "127.0.0.1:9092"}
    assert ottla("profile", "use", "far").err == "far is the default profile now\n"
    assert find_profile(None)["sasl.password"] == 'a"b\\c'
    shown = json.loads(ottla("profile", "list", "--format", "json").out)
    assert [(each["name"], each["default"]) for each in shown] == [("local", False), ("far", True)]
    assert shown[1]["sasl.password"] == "(secret)"
    assert ottla("profile", "delete", "far", "--yes").code == 0
    assert find_profile(None) == {}


def test_mistakes_say_what_to_type(ottla, file: Path) -> None:
    ottla("profile", "create", "local", "-b", "127.0.0.1:9092")
    again = ottla("profile", "create", "local", "-b", "127.0.0.1:9093")
    assert again.code == 1
    assert "replace it:  ottla profile create local --replace" in again.err
    assert "there are: local" in ottla("profile", "use", "locl").err
    assert find_profile(None) == {"bootstrap.servers": "127.0.0.1:9092"}
