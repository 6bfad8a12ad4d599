"""A broker in a thread of the test, with the face of `BrokerProcess`: a start without 500 imports.

It runs the same `Broker` on the same kind of event loop as `ottla serve`, and its log lines go to a file in
the same form. What only a process has is left out: the command line, SIGKILL, the exit code. A start that is
refused counts as exit code 1; one that fails with anything but the broker's own errors leaves a traceback.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Self

import uvloop

from ottla.broker import Broker, StartError
from ottla.common.log_format import LINE, TextFormatter
from ottla.common.log_limit import RepeatedLines
from ottla.testing.broker_process import BrokerFailed, free_port

WITHIN_S = 30.0


class BrokerThread:
    """One broker: its data, its address, and its loop while it runs. One at a time logs to its own file."""

    def __init__(self, data: Path, *, settings: Mapping[str, str]) -> None:
        self.stderr_path = data.with_name(data.name + ".stderr")
        self.address = f"127.0.0.1:{free_port()}"
        self._raw = {
            **settings,
            "ottla.metrics.listen": "off",
            "log.dirs": str(data),
            "listeners": f"PLAINTEXT://{self.address}",
        }
        self._broker: Broker | None = None
        self._undo: list[Callable[[], object]] = []

    def start(self) -> Self:
        """Start the broker, and return when it is ready."""
        assert self._broker is None, "it runs already"
        self._write_log_lines()
        self._loop = uvloop.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="broker")
        self._undo += [
            self._loop.close,
            thread.join,
            lambda: self._loop.call_soon_threadsafe(self._loop.stop),
        ]
        thread.start()
        try:
            self._broker = self._do(self._started())
        except Exception as error:
            text = f"Error: {error}\n" if isinstance(error, StartError) else traceback.format_exc()
            self._clean_up()
            with self.stderr_path.open("a") as file:
                file.write(text)
            raise BrokerFailed(f"the broker ended with exit code 1 before it was ready: {text}") from error
        return self

    def stop(self) -> None:
        """Stop the broker cleanly."""
        assert self._broker is not None, "it does not run"
        broker, self._broker = self._broker, None
        try:
            self._do(broker.stop())
        finally:
            self._clean_up()

    def restart(self) -> Self:
        """Stop the broker cleanly and start it again on the same data and address."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop the broker if it runs."""
        if self._broker is not None:
            self.stop()

    async def _started(self) -> Broker:
        broker = Broker(self._raw)
        await broker.start()
        return broker

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WITHIN_S)

    def _write_log_lines(self) -> None:
        handler = logging.FileHandler(self.stderr_path)
        handler.setFormatter(TextFormatter(LINE))
        handler.addFilter(RepeatedLines())
        root = logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        self._undo += [lambda: root.setLevel(level), lambda: root.removeHandler(handler), handler.close]

    def _clean_up(self) -> None:
        while self._undo:
            self._undo.pop()()
