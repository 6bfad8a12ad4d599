"""What Spark starts as Python: asks the warm Python (warm_python.py) to fork a process, and waits for it.

It runs as a file, without `site`: `python -I -S python_launcher.py PYTHON -m pyspark.daemon ...`. Without a
warm Python, or if the arguments are not a module to run, it executes the ordinary Python.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys

ADDRESS = "OTTLA_WARM_PYTHON"
JVM = "OTTLA_SPARK_JVM"
LENGTH = struct.Struct(">I")
GREETING = b"ottla"
GREETED_WITHIN_S = 30.0
CONNECTS = ("PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SOCK_PATH")
CONNECTING_WITHIN_S = 4.0
"""Spark waits 10 seconds for a process that is to connect; an ordinary Python does so at once."""
STANDARD = (0, 1, 2)
FORWARDED = (signal.SIGTERM, signal.SIGHUP)


def main(python: str, *arguments: str) -> None:
    """Run what Spark wanted to start."""
    forked = _forked(arguments) if arguments[:1] == ("-m",) else None
    if forked is None:
        os.execv(python, [python, *arguments])
    _stand_in_for(*forked)


def _forked(arguments: tuple[str, ...]) -> tuple[int, socket.socket] | None:
    """Return the forked process, and the connection that reports its end."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connects = any(name in os.environ for name in CONNECTS)
        connection.settimeout(CONNECTING_WITHIN_S if connects else GREETED_WITHIN_S)
        connection.connect(os.environ[ADDRESS])
        if connection.recv(len(GREETING)) != GREETING:
            return None
    except (OSError, KeyError):
        return None
    # From here on the pipes are the forked process's: two processes must not use them.
    connection.settimeout(None)
    environment = {**os.environ, JVM: str(os.getppid())}
    wanted = [os.getcwd(), *arguments, "", *(f"{name}={value}" for name, value in environment.items())]
    body = "\0".join(wanted).encode(errors="surrogateescape")
    # A signal for the forked process may come before we can forward it: it waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    socket.send_fds(connection, [LENGTH.pack(len(body))], STANDARD)
    connection.sendall(body)
    return LENGTH.unpack(connection.recv(LENGTH.size))[0], connection


def _stand_in_for(pid: int, connection: socket.socket) -> None:
    """Forward signals, and exit as the process exits."""
    for number in FORWARDED:
        signal.signal(number, lambda received, _: _signal(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    for each in STANDARD:  # the forked process owns them now
        os.close(each)
    ended = connection.recv(LENGTH.size)
    os._exit(LENGTH.unpack(ended)[0] if ended else 1)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
