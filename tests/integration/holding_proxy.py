"""A proxy that keeps one request back, breaks the connection, and delivers the request later, as networks do.

The client learns that its connection broke, connects again and repeats what it was not answered. What it sent
first is still on its way: `deliver` lets it arrive.
"""

from __future__ import annotations

import socket
import threading

from tests.integration.clients import DEADLINE_S
from tests.integration.frame_proxy import Call, Cut, FrameProxy


class HoldingProxy(FrameProxy):
    """Holds back the next request of the armed kind."""

    def __init__(self, broker_address: str) -> None:
        super().__init__(broker_address)
        self.is_held = threading.Event()
        self._armed: int | None = None
        self._held: Call | None = None

    def hold_next(self, api_key: int) -> None:
        """Hold back the next request of this kind."""
        self._armed = api_key

    def deliver(self) -> bytes:
        """Let the broker have it now; return its answer, which no client will ever see, from the body on."""
        assert self._held is not None, "nothing was held"
        with socket.create_connection((self._host, self._port), timeout=DEADLINE_S) as connection:
            connection.sendall(self._held.frame)
            answer = connection.makefile("rb")
            size = int.from_bytes(answer.read(4), "big")
            return answer.read(size)[4:]

    async def on_request(self, call: Call) -> bool:
        if call.api_key != self._armed:
            return True
        self._armed = None
        self._held = call
        self.is_held.set()
        raise Cut
