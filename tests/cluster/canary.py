"""A well-behaved client beside hostile ones: it writes and reads back, over and over, and keeps the time."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from tests.cluster.load import create_topic
from tests.cluster.wire import WirePeer, batch_of, fetch_frame

TOPIC = "canary"


class Canary:
    """Round trips through topic `canary` in a thread of its own, each a produce and the fetch of it."""

    def __init__(self, address: str, *, value_bytes: int = 100) -> None:
        create_topic(address, TOPIC, 1)
        self._address = address
        self._value = bytes(value_bytes)
        self._seconds: list[float] = []
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="canary", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.assert_sings()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def assert_sings(self, *, times: int = 5, within_s: float = 10.0) -> None:
        """Wait for some more round trips, all of which must come in time."""
        wanted = len(self._seconds) + times
        with self._moved:
            self._moved.wait_for(lambda: self._failure or len(self._seconds) >= wanted, within_s)
        if self._failure is not None:
            raise AssertionError("the canary's connection failed") from self._failure
        assert len(self._seconds) >= wanted, f"fewer than {times} round trips within {within_s:g} s"

    @property
    def slowest_s(self) -> float:
        """The longest that a round trip took."""
        return max(self._seconds)

    def _run(self) -> None:
        try:
            with WirePeer(self._address) as peer:
                while not self._stopping.is_set():
                    began = time.monotonic()
                    self._go_round(peer)
                    with self._moved:
                        self._seconds.append(time.monotonic() - began)
                        self._moved.notify_all()
        except BaseException as failure:
            with self._moved:
                self._failure = failure
                self._moved.notify_all()

    def _go_round(self, peer: WirePeer) -> None:
        answer = peer.produce(TOPIC, 0, batch_of([self._value]))
        assert answer.error_code == 0, answer
        peer.send(fetch_frame(TOPIC, 0, answer.base_offset, max_wait_ms=1000, max_bytes=1 << 20))
        assert self._value in peer.receive_frame()
