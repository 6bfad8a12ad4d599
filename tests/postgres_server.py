"""A PostgreSQL server of this machine's packages, for tests: started, killed and started again."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.testing.broker_process import free_port

START_ATTEMPTS = 5
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


class PostgresServer:
    """A server with logical replication."""

    def __init__(self) -> None:
        self._user = _other_user() if os.getuid() == 0 else None
        # Not below pytest's own folder: each pytest that starts closes that one to other users.
        self.folder = Path(tempfile.mkdtemp(prefix="ottla-postgres-"))
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self.port = free_port()
        self._run("initdb", "-D", str(self.data), "-U", "tester", "--auth=trust", "-E", "UTF8", "--locale=C")
        self.start()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.folder} -c fsync=off "
            "-c wal_level=logical -c max_replication_slots=20 -c max_wal_senders=10"
        )
        start = ("pg_ctl", "-D", str(self.data), "-o", options, "-l", str(self.folder / "log"), "-w", "start")
        for attempt in range(START_ATTEMPTS):
            try:
                self._run(*start)
            except subprocess.CalledProcessError as error:
                if attempt == START_ATTEMPTS - 1:
                    log = (self.folder / "log").read_text()[-2000:]
                    raise AssertionError(f"{error.stdout!r} {error.stderr!r} {log}") from None
                time.sleep(1)  # shared memory of a server that was killed is still in use
            else:
                return

    def kill(self) -> None:
        """End it as kill -9 does, and all its children."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGSTOP)  # it starts no more children
        children = subprocess.run(
            ["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True, check=False
        )
        for each in [*map(int, children.stdout.split()), pid]:
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                pass
        (self.data / "postmaster.pid").unlink(missing_ok=True)  # or it waits for an unrelated process

    def close(self) -> None:
        self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "stop")
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(BINARIES[-1] / program), *arguments], check=True, capture_output=True, user=self._user
        )


def _other_user() -> str | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return None


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Run a server, or skip the test if there is none to run."""
    if not BINARIES:
        pytest.skip("no PostgreSQL server in /usr/lib/postgresql")
    if os.getuid() == 0 and _other_user() is None:
        pytest.skip("PostgreSQL does not run as root, and there is no user nobody or postgres")
    server = PostgresServer()
    try:
        yield server
    finally:
        server.close()
