"""Find the name, the files and the settings of a pipeline by its path."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ottla.spark.pipelines.problems import PipelineProblem, Place
from ottla.spark.pipelines.spec import SPEC_NAMES, Spec, read_spec

SOURCES = (".py", ".sql")
NOT_SOURCES = {"tests", "samples", "__pycache__"}
"""Folders of a project without a spec that contain no definitions."""


@dataclass(frozen=True)
class Project:
    """A pipeline on disk."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    spec: Spec
    path: Path | None = None
    """What the user named: a file or a folder. None for a pipeline that a command builds."""

    def again(self) -> Project:
        """Return the pipeline as it is on disk now."""
        return self if self.path is None else open_project(self.path, name=self.name)


def open_project(path: Path, *, name: str = "") -> Project:
    """Return the pipeline at `path`: a .py or .sql file, a spec file, or a folder."""
    path = path.absolute()
    if not path.exists():
        raise PipelineProblem(
            f"there is no file or folder {path}", f"create a pipeline there: ottla pipeline init {path.name}"
        )
    if path.is_dir():
        spec_file = _spec_in(path)
        if spec_file is not None:
            return _from_spec(spec_file, name)
        files = tuple(sorted(_sources(path)))
        if not files:
            raise PipelineProblem(
                f"{path} has no .py or .sql files",
                f"create a pipeline there: ottla pipeline init {path.name}",
            )
        return Project(_clean(name or path.name), path, files, Spec(), path)
    if path.name in SPEC_NAMES or path.suffix in (".yml", ".yaml"):
        return _from_spec(path, name)
    if path.suffix not in SOURCES:
        raise PipelineProblem(f"{path.name} is neither a .py nor a .sql file, nor a {SPEC_NAMES[0]}")
    return Project(_clean(name or path.stem), path.parent, (path,), Spec(), path)


def _spec_in(folder: Path) -> Path | None:
    found = [folder / name for name in SPEC_NAMES if (folder / name).is_file()]
    if len(found) > 1:
        raise PipelineProblem(f"{folder} has both {' and '.join(SPEC_NAMES)}: keep one")
    return found[0] if found else None


def _from_spec(file: Path, name: str) -> Project:
    spec = read_spec(file.read_text(encoding="utf-8"), str(file))
    folder = file.parent
    files: dict[Path, None] = {}
    for pattern in spec.libraries or ("transformations/**",):
        files |= dict.fromkeys(_matching(folder, pattern, file))
    if not files:
        raise PipelineProblem(
            "no .py or .sql file matches its libraries",
            "libraries name the files by globs",
            place=Place(str(file)),
        )
    return Project(_clean(name or spec.name or folder.name), folder, tuple(files), spec, file)


def _matching(folder: Path, pattern: str, spec_file: Path) -> Iterable[Path]:
    """Return the sources of one glob; as in SDP it is a file, or a folder followed by /**."""
    if glob.has_magic(pattern.removesuffix("/**")):
        raise PipelineProblem(
            f"the glob {pattern!r} is neither a file nor a folder/**", place=Place(str(spec_file))
        )
    if pattern.endswith("/**"):
        return sorted(_sources(folder / pattern.removesuffix("/**")))
    path = folder / pattern
    if not path.is_file():
        raise PipelineProblem(f"there is no file {pattern!r}", place=Place(str(spec_file)))
    return [path]


def _sources(folder: Path) -> Iterable[Path]:
    return (
        path
        for path in folder.rglob("*")
        if path.suffix in SOURCES
        and path.is_file()
        and not NOT_SOURCES.intersection(path.relative_to(folder).parts)
        and not path.name.startswith(("test_", "."))
    )


def _clean(name: str) -> str:
    """Return a name that can be used as a folder name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "pipeline"
