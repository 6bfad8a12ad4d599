"""Which archive of Spark's classes a JVM is given, and when one is made."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from ottla.spark.runtime.app_cds import SWITCH, WRITE_TO, AppCdsArchive


@pytest.fixture
def archive(tmp_path: Path) -> AppCdsArchive:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17"')
    (tmp_path / "jdk" / "lib" / "server").mkdir(parents=True)
    (tmp_path / "jdk" / "lib" / "server" / "classes.jsa").touch()
    (tmp_path / "jars").mkdir()
    return AppCdsArchive(tmp_path / "cache", java, tmp_path / "jars")


def option(archive: AppCdsArchive, **environment: str) -> str:
    """Return what the script gives to Java."""
    script = archive.script_lines() + 'echo "$classes"'
    return subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_jvm_uses_the_archive_once_it_is_there(archive: AppCdsArchive) -> None:
    assert option(archive) == "-Xshare:auto"
    archive.path.parent.mkdir()
    archive.path.touch()
    assert option(archive) == f"-XX:SharedArchiveFile={archive.path}"
    assert option(archive, **{SWITCH: "off"}) == "-Xshare:auto"
    assert option(archive, **{WRITE_TO: "/there"}) == "-XX:ArchiveClassesAtExit=/there"


def test_another_java_or_other_jars_have_another_archive(archive: AppCdsArchive, tmp_path: Path) -> None:
    java, jars = tmp_path / "jdk/bin/java", tmp_path / "jars"
    assert AppCdsArchive(tmp_path / "cache", java, jars).path == archive.path
    os.utime(jars, ns=(1, 1))
    assert AppCdsArchive(tmp_path / "cache", java, jars).path != archive.path
    (tmp_path / "jdk/release").write_text('JAVA_VERSION="21"')
    assert len({AppCdsArchive(tmp_path / "cache", java, jars).path, archive.path}) == 2


def test_it_is_made_once_and_not_tried_again_where_it_cannot_be(
    archive: AppCdsArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Path] = []

    def train(self: AppCdsArchive, written: Path) -> bool:
        tries.append(written)
        written.write_bytes(b"classes")
        return len(tries) > 1

    monkeypatch.setattr(AppCdsArchive, "_train", train)
    assert not archive.make()
    assert not archive.make()
    assert len(tries) == 1
    archive.path.with_suffix(".failed").unlink()
    assert archive.make()
    assert archive.make()
    assert len(tries) == 2
    assert archive.path.read_bytes() == b"classes"


def test_while_another_process_makes_it_there_is_no_wait(archive: AppCdsArchive) -> None:
    archive.path.parent.mkdir()
    with archive.path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not archive.make()


def test_a_java_without_an_archive_of_its_own_gets_none(archive: AppCdsArchive, tmp_path: Path) -> None:
    (tmp_path / "jdk" / "lib" / "server" / "classes.jsa").unlink()
    assert not archive.should_build
    assert not archive.make()


def test_from_java_25_on_it_is_an_aot_cache_which_needs_no_archive_of_javas_classes(
    archive: AppCdsArchive, tmp_path: Path
) -> None:
    (tmp_path / "jdk" / "lib" / "server" / "classes.jsa").unlink()
    for version, is_aot_cache in (("21.0.1", False), ("24", False), ("25.0.2", True), ("26", True)):
        (tmp_path / "jdk" / "release").write_text(f'IMPLEMENTOR="a"\nJAVA_VERSION="{version}"\n')
        found = AppCdsArchive(tmp_path / "cache", tmp_path / "jdk/bin/java", tmp_path / "jars")
        assert (found.is_aot_cache, found.should_build) == (is_aot_cache, is_aot_cache), version
    assert option(found, **{WRITE_TO: "/there"}) == "-XX:AOTCacheOutput=/there"
    found.path.parent.mkdir()
    found.path.touch()
    assert option(found) == f"-XX:AOTCache={found.path}"
    assert option(found, **{SWITCH: "off"}) == "-Xshare:auto"


def test_training_itself_makes_none(archive: AppCdsArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    assert archive.should_build
    monkeypatch.setenv(WRITE_TO, "/there")
    assert not archive.should_build


def test_a_small_machine_builds_none_by_itself(
    archive: AppCdsArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert archive.should_build
    assert not archive.should_build_now
    monkeypatch.setenv(SWITCH, "on")
    assert archive.should_build_now
    monkeypatch.delenv(SWITCH)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 16 * 1024**3 // 4096)
    assert archive.should_build_now
    monkeypatch.setattr(os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 4 * 1024**3 // 4096)
    assert not archive.should_build_now
