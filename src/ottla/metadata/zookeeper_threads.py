"""Between kazoo's threads and the loop: what they run of ours, and how it gets across."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class Threads(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads; `on_failure` is told what ended one. kazoo itself would only print it."""

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        super().__init__()
        self._on_failure = on_failure

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> threading.Thread:
        """Run the function in a thread."""

        def run() -> None:
            try:
                func(*args, **kwargs)
            except Exception as error:
                self._on_failure(error)

        thread: threading.Thread = super().spawn(run)
        return thread


@dataclass(frozen=True, slots=True)
class Notice:
    """A watch for kazoo. Notices of the same watch are equal, so kazoo keeps one of them per node."""

    post: Callable[..., None]
    watch: Callable[[], None]

    def __call__(self, _: Any) -> None:
        """Tell the loop."""
        self.post(self.watch)


def resolve(answer: asyncio.Future[Any], result: Any) -> None:
    """Give what kazoo answered to whoever waits for it; runs on the loop."""
    if answer.done():
        return
    if result.exception is not None:
        answer.set_exception(result.exception)
    else:
        answer.set_result(result.value)
