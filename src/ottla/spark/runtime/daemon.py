"""The daemon that forks Spark's Python workers: modules are imported once, and shared by all workers.

In Spark's own daemon, each worker imports numpy, pyarrow and Ottla by itself. It is not needed with a warm
Python (warm_python.py).
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from functools import wraps

from ottla.spark.runtime.warm_python import WORKER_MODULES, load

Worker = Callable[[socket.socket, bool], int]


def main() -> None:
    """Import modules, then run pyspark's daemon."""
    from pyspark import daemon

    if sys.argv[1:] in ([], ["pyspark.worker"]):
        load(WORKER_MODULES)
    setattr(daemon, "worker", without_complaint(daemon.worker))  # noqa: B010
    daemon.manager()


def without_complaint(worker: Worker) -> Worker:
    """Return the worker, ending quietly if Spark needs no more rows: `show`, `take` and `limit` hang up.

    pyspark prints a traceback with `Broken pipe` for each task, and ends the process in the same way.
    """

    @wraps(worker)
    def run(connection: socket.socket, authenticated: bool) -> int:
        try:
            return worker(connection, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return run


if __name__ == "__main__":
    main()
