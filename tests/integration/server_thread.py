"""A service in a thread of the test, with an event loop of its own."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, Self

from tests.loop_thread import LoopThread


class Server(Protocol):
    """What is started and stopped."""

    async def start(self) -> Any: ...

    async def stop(self) -> Any: ...


class ServerThread:
    """Runs `server` from `with` to its end."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._loop_thread = LoopThread(name)

    def __enter__(self) -> Self:
        self._loop_thread.start()
        try:
            self.do(self._server.start())
        except BaseException:
            self._loop_thread.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.do(self._server.stop())
        self._loop_thread.stop()

    def do(self, coroutine: Any) -> Any:
        """Run a coroutine in the loop of the service."""
        return self._loop_thread.run(coroutine, 60)
