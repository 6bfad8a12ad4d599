"""The version of the package, from the tags of the repository.

    commit with the tag v1.2.3     1.2.3
    5 commits after it             1.2.4.dev5
    no tag, no git, shallow clone  the version in src/ottla/__init__.py, which is one of development
    an unpacked sdist              the version that it was made with, in PKG-INFO

There is no `+g0a1b2c3` at the end: Kafka refuses a client's version with a plus sign, and so do image tags.
`OTTLA_VERSION` in the environment wins: for builds without the repository, as in a container.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VARIABLE = "OTTLA_VERSION"

_DESCRIBED = re.compile(r"v(\d+)\.(\d+)\.(\d+)-(\d+)-g[0-9a-f]+")
_PKG_INFO = re.compile(r"^Version: (.+)$", re.MULTILINE)
_DEVELOPMENT = re.compile(r'^DEVELOPMENT = "(.+)"$', re.MULTILINE)


def version(root: Path = ROOT) -> str:
    """Return the version of the sources in a folder."""
    return os.environ.get(VARIABLE) or _of_sdist(root) or _of_tags(root) or _of_source(root)


def _of_sdist(root: Path) -> str | None:
    try:
        found = _PKG_INFO.search((root / "PKG-INFO").read_text())
    except OSError:
        return None
    return found[1].strip() if found else None


def _of_tags(root: Path) -> str | None:
    if not (root / ".git").exists():  # an outer repository has tags of its own
        return None
    command = ("git", "describe", "--tags", "--long", "--match", "v[0-9]*")
    try:
        said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    found = _DESCRIBED.fullmatch(said.strip())
    if found is None:
        return None
    major, minor, patch, commits = map(int, found.groups())
    if not commits:
        return f"{major}.{minor}.{patch}"
    return f"{major}.{minor}.{patch + 1}.dev{commits}"


def _of_source(root: Path) -> str:
    found = _DEVELOPMENT.search((root / "src" / "ottla" / "__init__.py").read_text())
    if found is None:
        raise ValueError("src/ottla/__init__.py has no DEVELOPMENT version")
    return found[1]


if __name__ == "__main__":
    print(version())
