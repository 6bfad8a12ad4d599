"""The main program of the engine's process: commands come in at stdin, events go out at a pipe.

    {"start": TASK SPEC}   {"stop": ID, "run": N}
    {"event": "ready"} {"event": "running", ...} {"event": "progress", ...} {"event": "failed", ...}
    {"event": "stopped", ...}

When stdin ends, the worker is gone: so the process ends, and its JVM with it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import IO, Any

from ottla.connect.engine.queries import TaskQuery, is_retriable, trace_of
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.plugins import Plugins

log = logging.getLogger("ottla.connect.engine")

POLL_S = 0.2
THREADS = 8


class Engine:
    """Runs tasks."""

    def __init__(self, settings: dict[str, Any], events: IO[str]) -> None:
        self._settings = settings
        self._events = events
        self._lock = threading.Lock()
        self._running: dict[str, TaskQuery] = {}
        self._starts: dict[str, Future[None]] = {}
        self._plugin_path: list[str] = settings["plugin_path"]
        self._plugins = Plugins.load(self._plugin_path)
        self._spark: Any = None
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="task")

    def open(self) -> None:
        """Start Spark."""
        from ottla.connect.engine.source_stream import ConnectSource
        from ottla.connect.engine.topic_ranges import TopicRanges
        from ottla.spark import session
        from ottla.spark.data_source import OttlaSource

        logging.getLogger("py4j").setLevel(logging.ERROR)
        conf = {"spark.sql.session.timeZone": "UTC", "spark.sql.streaming.stopTimeout": "60000"}
        self._spark = session(
            "ottla-connect",
            master=self._settings["master"],
            conf=conf | self._settings["conf"],
            log_level="ERROR",
        )
        for each in (ConnectSource, OttlaSource, TopicRanges):
            self._spark.dataSource.register(each)
        self._send({"event": "ready", "jvm": self._jvm_pid()})

    def _jvm_pid(self) -> int:
        return int(self._spark._jvm.java.lang.ProcessHandle.current().pid())

    def serve(self, commands: IO[str]) -> None:
        """Take commands until stdin ends."""
        threading.Thread(target=self._watch, daemon=True, name="watch").start()
        for line in commands:
            command = json.loads(line)
            if "start" in command:
                spec = TaskSpec(**command["start"])
                self._starts[spec.id] = self._pool.submit(self._start, spec)
            elif "stop" in command:
                self._pool.submit(self._stop, command["stop"], command["run"])

    def _start(self, spec: TaskSpec) -> None:
        try:
            # Spark looks data sources up in the active session, which each thread has for itself.
            self._spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(
                self._spark._jsparkSession
            )
            query = TaskQuery(self._spark, self._plugins, self._plugin_path, spec)
            query.start()
        except BaseException as error:
            self._failed(spec, trace_of(error))
            return
        with self._lock:
            self._running[spec.id] = query
        self._send({"event": "running", "task": spec.id, "run": spec.run})

    def _stop(self, task: str, run: int) -> None:
        if (start := self._starts.get(task)) is not None:
            wait([start])  # it was submitted before, so a thread has it; a query takes seconds to start
        with self._lock:
            query = self._running.pop(task, None)
        report = None
        if query is not None:
            try:
                report = query.stop()
            except Exception as error:
                log.warning("%s: cannot be stopped: %s", task, error)
        self._send({"event": "stopped", "task": task, "run": run, "report": report})

    def _watch(self) -> None:
        """Report progress and failures of all tasks; end if the JVM does not answer any more."""
        pause = threading.Event()
        while not pause.wait(POLL_S):
            with self._lock:
                running = list(self._running.items())
            try:
                for task, query in running:
                    self._look(task, query)
                self._spark._jvm.java.lang.System.nanoTime()
            except Exception as error:
                log.error("the JVM has ended: %s", error)
                os._exit(3)

    def _look(self, task: str, query: TaskQuery) -> None:
        trace = query.failure()
        report = query.progress()
        if report is not None:
            self._send({"event": "progress", "task": task, "run": query.spec.run, "report": report})
        if trace is None:
            return
        with self._lock:
            if self._running.get(task) is not query:
                return
            del self._running[task]
        self._failed(query.spec, trace)

    def _failed(self, spec: TaskSpec, trace: str) -> None:
        retriable = is_retriable(trace)
        self._send(
            {"event": "failed", "task": spec.id, "run": spec.run, "trace": trace, "retriable": retriable}
        )

    def _send(self, event: dict[str, Any]) -> None:
        with self._lock:
            print(json.dumps(event), file=self._events, flush=True)


def main() -> None:
    """Run the engine; the first line of stdin has the settings, the argument is the pipe for events."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    commands = sys.stdin
    settings = json.loads(commands.readline())
    folders = [each for each in settings["plugin_path"] if os.path.isdir(each)]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), *folders]))
    with os.fdopen(int(sys.argv[1]), "w") as events:
        engine = Engine(settings, events)
        engine.open()
        engine.serve(commands)
    os._exit(0)


if __name__ == "__main__":
    main()
