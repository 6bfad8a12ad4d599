"""The package as one zip file, for executors on other machines.

    python -m ottla.spark.runtime.shipping ottla.zip
    spark-submit --files ottla.zip --conf spark.executorEnv.PYTHONPATH=ottla.zip job.py

It holds Ottla itself, which is plain Python. What Ottla needs beside it (pyarrow, crc32c, ...) is compiled,
cannot be imported from a zip, and must be in the Python that executors run: see docs/spark-cluster.md.
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("ottla", "pyspark_ottla")
SKIPPED_SUFFIXES = frozenset({".so", ".pyc", ".pyd"})
FILES = "spark.files"
EXECUTOR_PATH = "spark.executorEnv.PYTHONPATH"
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)


def settings_to_ship(package: Path, conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings that ship the package to executors, and put it on their path.

    Spark does not put `--py-files` on the path of workers that run a data source it has discovered: so the
    package is shipped as a file, into the working directory of executors, and is on their path from there.
    Existing settings of `conf` are kept.
    """
    conf = conf or {}
    files = [str(package), conf.get(FILES, "")]
    paths = [package.name, conf.get(EXECUTOR_PATH, "")]
    return {FILES: ",".join(filter(None, files)), EXECUTOR_PATH: ":".join(filter(None, paths))}


def write_package(target: Path) -> Path:
    """Write the zip file and return its path; the output is reproducible."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            folder = _folder_of(package)
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.suffix not in SKIPPED_SUFFIXES:
                    name = Path(package, path.relative_to(folder)).as_posix()
                    entry = zipfile.ZipInfo(name, _FIRST_DATE)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(entry, path.read_bytes())
    return target


def _folder_of(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{package} is not installed; try: pip install 'ottla[spark]'")
    return Path(spec.origin).parent


def main() -> None:
    """Write the zip file, and print its path."""
    parser = argparse.ArgumentParser(prog="python -m ottla.spark.runtime.shipping", description=__doc__)
    parser.add_argument("target", type=Path, nargs="?", default=Path("ottla.zip"))
    print(write_package(parser.parse_args().target))


if __name__ == "__main__":
    main()
