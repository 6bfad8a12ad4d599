"""Versions come from tags; where there are none, from the sources or the sdist."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tools.version import version


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one commit and a development version."""
    monkeypatch.delenv("OTTLA_VERSION", raising=False)
    source = tmp_path / "src" / "ottla" / "__init__.py"
    source.parent.mkdir(parents=True)
    source.write_text('DEVELOPMENT = "0.3.0.dev0"\n')
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(folder: Path) -> None:
    git(folder, "commit", "-q", "--allow-empty", "-m", "a change")


def test_a_tagged_commit_has_the_version_of_the_tag(checkout: Path) -> None:
    git(checkout, "tag", "v1.2.3")
    git(checkout, "tag", "nightly")
    assert version(checkout) == "1.2.3"


def test_after_a_tag_the_next_version_is_in_development(checkout: Path) -> None:
    git(checkout, "tag", "v1.2.3")
    commit(checkout)
    commit(checkout)
    assert version(checkout) == "1.2.4.dev2"


def test_without_tags_the_sources_say_it(checkout: Path) -> None:
    assert version(checkout) == "0.3.0.dev0"


def test_a_shallow_clone_without_tags_has_the_version_of_the_sources(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "add", "src")
    git(checkout, "commit", "-q", "-m", "sources")
    git(checkout, "tag", "v1.2.3", "HEAD~1")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", "--no-tags", f"file://{checkout}", str(clone))
    assert version(clone) == "0.3.0.dev0"


def test_tags_of_an_outer_repository_do_not_count(checkout: Path) -> None:
    git(checkout, "tag", "v9.9.9")
    inner = checkout / "unpacked" / "src" / "ottla" / "__init__.py"
    inner.parent.mkdir(parents=True)
    inner.write_text('DEVELOPMENT = "0.4.0.dev0"\n')
    assert version(checkout / "unpacked") == "0.4.0.dev0"


def test_an_sdist_keeps_its_version(checkout: Path) -> None:
    git(checkout, "tag", "v1.2.3")
    (checkout / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: ottla\nVersion: 1.2.2\n")
    assert version(checkout) == "1.2.2"


def test_the_environment_wins(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_VERSION", "7.0.0")
    assert version(checkout) == "7.0.0"
