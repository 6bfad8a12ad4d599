"""However the bytes are cut and whenever answers come: the same requests, the replies in their order."""

from __future__ import annotations

import asyncio
import struct

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.network.harness import ECHO, PARKED, PRODUCE, PRODUCE_NOW, SILENT, ScriptedHandler, request

from ottla.common.clock import ManualClock
from ottla.network.connection import SCRATCH_BYTES, SMALL_FRAME_BYTES, Connection
from ottla.network.limits import NetworkLimits
from ottla.network.server import Server

SIZES = st.one_of(
    st.integers(0, 100),
    st.sampled_from([SMALL_FRAME_BYTES - 9, SMALL_FRAME_BYTES - 8, SMALL_FRAME_BYTES - 7, SMALL_FRAME_BYTES]),
    st.sampled_from([SCRATCH_BYTES - 13, SCRATCH_BYTES - 12, SCRATCH_BYTES - 11, 2 * SCRATCH_BYTES + 3]),
)
REQUESTS = st.lists(
    st.tuples(st.sampled_from([ECHO, SILENT, PARKED, PRODUCE, PRODUCE, PRODUCE_NOW]), SIZES), max_size=40
)
PIECES = st.lists(
    st.one_of(st.integers(1, 20), st.integers(1, 20_000), st.integers(1, 300_000)), min_size=1, max_size=20
)


class ScriptedTransport(asyncio.Transport):
    """Delivers bytes as a real transport does, and takes replies."""

    def __init__(self, connection: Connection) -> None:
        super().__init__({"peername": ("10.0.0.1", 5)})
        self.connection = connection
        self.is_paused = False
        self.written = bytearray()

    def deliver(self, data: memoryview) -> int:
        if self.is_paused:
            return 0
        buffer = memoryview(self.connection.get_buffer(-1))
        size = min(len(buffer), len(data))
        assert size > 0
        buffer[:size] = data[:size]
        self.connection.buffer_updated(size)
        return size

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0


@settings(max_examples=100, deadline=None)
@given(REQUESTS, PIECES, st.randoms(use_true_random=False), st.sampled_from([1, 3, 500]))
def test_replies_do_not_depend_on_how_requests_are_cut(requests, pieces, random, queued_requests) -> None:  # type: ignore[no-untyped-def]
    async def run() -> None:
        handler = ScriptedHandler()
        limits = NetworkLimits(queued_requests=queued_requests, queued_request_bytes=100_000)
        server = Server(handler, limits, ManualClock())
        connection = Connection(server, "PLAINTEXT")
        transport = ScriptedTransport(connection)
        connection.connection_made(transport)
        data = memoryview(
            b"".join(request(kind, number, bytes(size)) for number, (kind, size) in enumerate(requests))
        )
        at = turn = 0
        smallest = len(data) // 500  # keeps the number of turns within reason
        while at < len(data) or handler.parked or transport.is_paused:
            at += (
                transport.deliver(data[at : at + max(smallest, pieces[turn % len(pieces)])])
                if at < len(data)
                else 0
            )
            turn += 1
            if handler.parked and (random.random() < 0.3 or transport.is_paused or at == len(data)):
                handler.answer(random.choice(list(handler.parked)))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert handler.seen == list(range(len(requests)))
        replied, position = [], 0
        while position < len(transport.written):
            size, correlation_id = struct.unpack_from(">ii", transport.written, position)
            replied.append(correlation_id)
            position += 4 + size
        assert replied == [number for number, (kind, _) in enumerate(requests) if kind != SILENT]
        assert server.requests.used == 0
        assert server.frame_bytes.used == 0
        assert not connection.is_closing

    asyncio.run(run())
