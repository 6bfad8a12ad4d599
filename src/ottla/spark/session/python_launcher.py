"""What Spark starts instead of Python: asks the warm Python (warm_python.py) to fork one, and waits for it.

Run as a file, without `site`, by a Python that loads nothing else: `python -I -S python_launcher.py PYTHON
-m pyspark.daemon ...`. Where there is no warm Python to ask, or something else than a module is wanted, it
becomes the ordinary one.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

ADDRESS = "OTTLA_WARM_PYTHON"
JVM = "OTTLA_SPARK_JVM"
LENGTH = struct.Struct(">I")
GREETING = b"ottla"
GREETED_WITHIN_S = 30.0
STANDARD = (0, 1, 2)


def main(python: str, *arguments: str) -> None:
    """Be what Spark wanted to start."""
    forked = _forked(arguments) if arguments[:1] == ("-m",) else None
    if forked is None:
        os.execv(python, [python, *arguments])
    _stand_in_for(*forked)


def _forked(arguments: tuple[str, ...]) -> tuple[int, socket.socket] | None:
    """Return the process that does it, and the connection that will say how it ended."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(GREETED_WITHIN_S)
        connection.connect(os.environ[ADDRESS])
        if connection.recv(len(GREETING)) != GREETING:
            return None
    except (OSError, KeyError):
        return None
    # From here on it is the warm Python's: two processes must not answer at the same pipe.
    connection.settimeout(None)
    environment = {**os.environ, JVM: str(os.getppid())}
    wanted = [os.getcwd(), *arguments, "", *(f"{name}={value}" for name, value in environment.items())]
    body = "\0".join(wanted).encode(errors="surrogateescape")
    socket.send_fds(connection, [LENGTH.pack(len(body))], STANDARD)
    connection.sendall(body)
    return LENGTH.unpack(connection.recv(LENGTH.size))[0], connection


def _stand_in_for(pid: int, connection: socket.socket) -> None:
    """Pass signals on, and end as the process ends."""
    import signal

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: _signal(pid, received))
    for each in STANDARD:  # they are the other process's now
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
