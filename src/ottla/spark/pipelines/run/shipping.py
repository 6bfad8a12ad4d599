"""Ship the modules that a pipeline imports from its folder to Spark's workers."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ottla.spark.pipelines.project import Project


def ship_imported(spark: Any, project: Project, folder: Path) -> None:
    """Ship the modules of the project's folder that its files have imported; `folder` receives the
    archive.
    """
    files = imported_from(project.folder)
    if not files:
        return
    contents = {file.relative_to(project.folder): file.read_bytes() for file in files}
    digest = hashlib.sha256(repr(sorted(contents.items())).encode()).hexdigest()[:12]
    archive = folder / f"modules-{digest}.zip"  # Spark rejects another file of the same name
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as packed:
        for path, content in contents.items():
            packed.writestr(str(path), content)
    spark.sparkContext.addPyFile(str(archive))
    _send_by_value(project.folder)


def _send_by_value(folder: Path) -> None:
    """Pickle functions and classes of the project's modules by value.

    The worker on the driver that initialises a stateful processor does not see added files.
    """
    from pyspark import cloudpickle

    register: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    for module in _modules_of(folder).values():
        register(module)


def forget_imported(folder: Path) -> None:
    """Forget the modules of a project, so that its files import them as they are now."""
    for name in _modules_of(folder):
        del sys.modules[name]


def _modules_of(folder: Path) -> dict[str, ModuleType]:
    """Return the modules that were imported from a folder by their own names."""
    found = {}
    for name, module in list(sys.modules.items()):
        path = folder.joinpath(*name.split("."))
        if getattr(module, "__file__", None) in (f"{path}.py", str(path / "__init__.py")):
            found[name] = module
    return found


def imported_from(folder: Path) -> list[Path]:
    """Return the files below `folder` that are imported as modules, and their packages."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    found = {Path(file) for file in files if file and file.endswith(".py")}
    inside = {file for file in found if folder in file.parents and "site-packages" not in file.parts}
    return sorted(inside)
