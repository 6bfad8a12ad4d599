"""Hostile peers: where they come from, and what they must not achieve."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.cluster.canary import Canary
from tests.waiting import wait_until as wait_until

from ottla.testing.broker_process import BrokerProcess

MIB = 1 << 20
PER_ADDRESS = 200
"""max.connections.per.ip: hostile peers come from several addresses, and the canary from another one."""
TIMEOUT_S = 20.0
SLOWEST_S = 3.0
"""For a round trip of the canary; on an idle machine they take a millisecond."""


@contextmanager
def undisturbed(broker: BrokerProcess, canary: Canary, *, grown_mib: float) -> Iterator[None]:
    """Assert that an attack costs little memory and no descriptors, and that the canary sings through it."""
    canary.assert_sings()
    memory, descriptors = broker.rss_bytes(), broker.descriptors()
    yield
    canary.assert_sings()
    grown = (broker.rss_bytes() - memory) / MIB
    assert grown < grown_mib, f"{grown:.0f} MiB more are in use"
    assert canary.slowest_s < SLOWEST_S
    wait_until(lambda: broker.descriptors() <= descriptors + 8, "descriptors are not given back")
    assert "Traceback" not in broker.stderr_path.read_text()
    canary.assert_sings()


def connect(broker: BrokerProcess, number: int, receive_buffer: int | None = None) -> socket.socket:
    """Connect from one of several addresses of this machine, so that none of them has too many."""
    host, port = broker.address.rsplit(":", 1)
    made = socket.socket()
    if receive_buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.bind((f"127.0.1.{1 + number // (PER_ADDRESS - 10)}", 0))
    made.settimeout(TIMEOUT_S)
    made.connect((host, int(port)))
    return made


@contextmanager
def connections(broker: BrokerProcess, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(connect(broker, number)) for number in range(count)]


def is_closed(peer: socket.socket) -> bool:
    """Return whether the broker has closed the connection; wait for it."""
    try:
        while peer.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def send_as_far_as_possible(peers: list[socket.socket], data: bytes, quiet_s: float = 1.0) -> int:
    """Send to all until no peer has read a byte for a while; return how many have not taken everything."""
    left = {peer: memoryview(data) for peer in peers}
    with selectors.DefaultSelector() as ready:
        for peer in peers:
            peer.setblocking(False)
            ready.register(peer, selectors.EVENT_WRITE)
        while left and (events := ready.select(quiet_s)):
            for key, _ in events:
                sender = key.fileobj
                assert isinstance(sender, socket.socket)
                left[sender] = left[sender][sender.send(left[sender][:65536]) :]
                if not left[sender]:
                    ready.unregister(sender)
                    del left[sender]
    return len(left)
