"""Starts the Python workers of Spark: what a worker needs is loaded once, and shared by those that follow.

Spark's own daemon forks workers too, but each of them then imports numpy, pyarrow and us by itself. Where
there is a warm Python (warm_python.py), all that is loaded already.
"""

from __future__ import annotations

import sys

from ottla.spark.session.warm_python import WORKERS, load


def main() -> None:
    """Load, then do what pyspark's daemon does."""
    from pyspark import daemon

    if sys.argv[1:] in ([], ["pyspark.worker"]):
        load(WORKERS)
    daemon.manager()


if __name__ == "__main__":
    main()
