"""A Kerberos KDC on the loopback, from Debian's krb5-kdc."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.testing.broker_process import free_port

REALM = "OTTLA.TEST"
TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


def missing_tools() -> list[str]:
    """Return the programs that are not installed."""
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    return [each for each in TOOLS if shutil.which(each, path=path) is None]


class Kdc:
    """A realm in a folder; its environment is for whoever authenticates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder / 'cache'}",
        }

    def __enter__(self) -> Self:
        (self._folder / "krb5.conf").write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n rdns = false\n"
            f" dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self._port}\n }}\n"
        )
        (self._folder / "kdc.conf").write_text(
            f"[realms]\n {REALM} = {{\n  database_name = {self._folder}/principal\n"
            f"  key_stash_file = {self._folder}/stash\n  kdc_listen = 127.0.0.1:{self._port}\n"
            f"  kdc_tcp_listen = 127.0.0.1:{self._port}\n  acl_file = {self._folder}/acl\n }}\n"
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self._process = subprocess.Popen([self._program("krb5kdc"), "-n"], env=self._environment())
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return self
            except OSError:
                assert time.monotonic() < deadline, "the KDC does not answer"
                time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)

    def keytab(self, principal: str) -> Path:
        """Add a principal with a random key; return a keytab with it."""
        file = self._folder / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "addprinc", "-randkey", principal)
        self._run("kadmin.local", "ktadd", "-k", str(file), principal)
        return file

    def log_in(self, principal: str) -> None:
        """Get a ticket, as `kinit` does for a user."""
        self._run("kinit", "-k", "-t", str(self.keytab(principal)), principal)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._program(program), *arguments], env=self._environment(), check=True, capture_output=True
        )

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    @staticmethod
    def _program(name: str) -> str:
        return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin") or name
