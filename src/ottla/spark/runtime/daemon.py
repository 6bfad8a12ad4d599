"""The daemon that forks Spark's Python workers: modules are imported once, and shared by all workers.

In Spark's own daemon, each worker imports numpy, pyarrow and Ottla by itself. It is not needed with a warm
Python (warm_python.py).
"""

from __future__ import annotations

import sys

from ottla.spark.runtime.warm_python import WORKER_MODULES, load


def main() -> None:
    """Import modules, then run pyspark's daemon."""
    from pyspark import daemon

    if sys.argv[1:] in ([], ["pyspark.worker"]):
        load(WORKER_MODULES)
    daemon.manager()


if __name__ == "__main__":
    main()
