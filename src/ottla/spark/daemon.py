"""Starts the Python workers of Spark: what a worker needs is loaded once, and shared by those that follow.

Spark's own daemon forks workers too, but each of them then imports numpy, pyarrow and us by itself. What is
loaded here is also kept from the garbage collector, which pyspark calls after every task.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import cast

WORKER = "pyspark.worker"
FOR_WORKERS = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pandas",
    "pyspark.sql.pandas.serializers",
    "ottla.spark.reading",
    "ottla.spark.data_source",
    "ottla.spark.sink.writers",
)
"""None of these starts a thread that a fork would lose, but for jemalloc's, which sees to that itself."""


def main() -> None:
    """Load, then do what pyspark's daemon does."""
    # kio imports hypothesis, a tool for tests, wherever it finds it: 0.2 s that no worker needs.
    sys.modules.setdefault("hypothesis", cast(ModuleType, None))
    from pyspark import daemon

    module = sys.argv[1] if len(sys.argv) > 1 else WORKER
    for name in (module, *(FOR_WORKERS if module == WORKER else ())):
        import_module(name)
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
