"""Connects a Python process to Spark as soon as it starts, so that slow imports do not fail a query.

Problem: Spark's driver starts a Python process for each source, waits 10 seconds (a constant of Spark) for
it to connect, and then fails the query with `Python worker failed to connect back`. The process connects
after it has imported pyspark. On a busy machine or a slow disk that takes longer.

Solution: `ottla_early_connection.pth` imports this module in such a process, before anything else. It
connects and sends the secret that Spark asks for. When pyspark wants to connect, it gets this connection.
Spark waits for the rest without a limit (decision 303).
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

PATH = "PYTHON_WORKER_FACTORY_SOCK_PATH"
PORT = "PYTHON_WORKER_FACTORY_PORT"
SECRET = "PYTHON_WORKER_FACTORY_SECRET"
UTIL = "pyspark.util"
FUNCTION = "def local_connect_and_auth("
LENGTH = struct.Struct(">i")
ACCEPTED = LENGTH.pack(2) + b"ok"
CONNECTED_WITHIN_S = 5.0
ANSWERED_WITHIN_S = 120.0
"""Spark accepts one connection: it is not given up because the JVM, too, is slow."""


def connect() -> socket.socket:
    """Return a connection to the JVM that has started this process, on which the secret has been sent."""
    if path := os.environ.get(PATH):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(CONNECTED_WITHIN_S)
        connection.connect(path)
        return connection
    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((host, int(os.environ[PORT])), CONNECTED_WITHIN_S)
    secret = os.environ[SECRET].encode()
    connection.sendall(LENGTH.pack(len(secret)) + secret)
    return connection


def check_accepted(file: Any) -> None:
    """Read Spark's answer to the secret; there is none on a Unix domain socket."""
    if PATH not in os.environ and file.read(len(ACCEPTED)) != ACCEPTED:
        raise ConnectionError("Spark does not accept the secret of this process")


class EarlyConnection:
    """Finds `pyspark.util`, and has it return the connection to its first caller."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection: socket.socket | None = connection
        self._process = os.getpid()
        self._loader: Any = None

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of `pyspark.util`, loaded by this object."""
        if name != UTIL:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            self._loader = spec.loader
            spec.loader = self  # type: ignore[assignment]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Load the module, then replace the function that connects."""
        self._loader.exec_module(module)
        connect_late = module.local_connect_and_auth

        def local_connect_and_auth(address: str | int, secret: str | None) -> tuple[Any, socket.socket]:
            connection = self._connection
            if connection is None or os.getpid() != self._process or str(address) != _address():
                found: tuple[Any, socket.socket] = connect_late(address, secret)
                return found
            self._connection = None
            connection.settimeout(ANSWERED_WITHIN_S)
            file = connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", 65536)))
            check_accepted(file)
            connection.settimeout(int(os.environ.get("SPARK_AUTH_SOCKET_TIMEOUT", 15)))
            return file, connection

        setattr(module, "local_connect_and_auth", local_connect_and_auth)  # noqa: B010

    def __getattr__(self, name: str) -> Any:
        # Before pyspark is imported, others ask a finder for what it may have, such as `invalidate_caches`.
        return getattr(self._loader, name)


def _address() -> str:
    return os.environ.get(PATH) or os.environ.get(PORT, "")


def has_function() -> bool:
    """Return whether this Python's pyspark connects by the function that is replaced (not before Spark 4)."""
    package = PathFinder.find_spec("pyspark")
    util = package and PathFinder.find_spec(UTIL, package.submodule_search_locations)
    loader: Any = util.loader if util else None
    return loader is not None and FUNCTION in (loader.get_source(UTIL) or "")


def main() -> None:
    """Connect, and keep the connection for pyspark; without one, pyspark reports the reason."""
    if not has_function():
        return
    try:
        connection = connect()
    except (OSError, KeyError, ValueError):
        return
    sys.meta_path.insert(0, EarlyConnection(connection))


main()
