"""Lets every thread write in the format `ottla`.

Spark looks up Python data sources in the active session of the thread. A thread that Python has started has
none: there `write.save()` and `writeStream.start()` fail with DATA_SOURCE_NOT_FOUND, while reading works. So
both make the writer's session the active one for as long as they last, if the thread has none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def write_from_threads() -> None:
    """Let the writers of this process work in threads without an active session."""
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    kinds: list[tuple[Any, tuple[str, ...]]] = [
        (DataFrameWriter, ("save",)),
        (DataStreamWriter, ("start", "toTable")),
    ]
    for kind, methods in kinds:
        if not hasattr(kind, "_ottla_in_threads"):
            kind._ottla_in_threads = True
            for name in methods:
                setattr(kind, name, _with_session(getattr(kind, name)))


def _with_session(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        spark = self._spark
        sessions = type(spark)._get_j_spark_session_class(spark._jvm)
        if sessions.getActiveSession().isDefined():
            return method(self, *args, **options)
        sessions.setActiveSession(spark._jsparkSession)
        try:
            return method(self, *args, **options)
        finally:
            sessions.clearActiveSession()

    return run
