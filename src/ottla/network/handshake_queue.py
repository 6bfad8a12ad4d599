"""The accepted connections whose TLS handshake has not begun: fair between addresses, and cheap to keep.

Problem: only some handshakes may be in flight, and a peer decides when it continues. A stranger that opens a
thousand connections and says nothing would keep everyone else waiting.

Solution: a handshake begins when the first TLS record has arrived completely (the ClientHello). Until then a
connection has a descriptor and an entry here. If its turn has not come, the address with the fewest
handshakes in flight is next. If too many wait, the silent ones of the address with the most are closed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass

RECORD_HEAD_BYTES = 5
"""Of a TLS record: its type, two bytes of version, two of size."""
HANDSHAKE_RECORD = 22
MAX_RECORD_BYTES = 16 << 10
MAX_LOOKS = 3
"""How often the first bytes of a peer are looked at: its first, its record's head, its whole record."""


@dataclass(eq=False, slots=True)
class WaitingPeer:
    """A connection that was accepted; `begin` starts its handshake."""

    sock: socket.socket
    host: str
    """Its address; of an IPv6 address the network, in which one client may have as many as it likes."""
    name: str
    """Address and port, for log lines."""
    since_ms: int
    begin: Callable[[], None]
    looks: int = 0


class HandshakeQueue:
    """The waiting connections of all TLS listeners."""

    def __init__(self, on_ready: Callable[[], None], refuse: Callable[[WaitingPeer, str], None]) -> None:
        self._on_ready = on_ready
        self._refuse = refuse
        self._silent: dict[str, dict[WaitingPeer, None]] = {}  # by address; each in the order of arrival
        self._ready: dict[str, dict[WaitingPeer, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return self._count

    @property
    def has_ready(self) -> bool:
        """Whether a peer waits for nothing but its turn."""
        return bool(self._ready)

    def add(self, peer: WaitingPeer, limit: int) -> None:
        """Wait for the first bytes of a peer; close another one if more than `limit` wait."""
        self._silent.setdefault(peer.host, {})[peer] = None
        self._count += 1
        asyncio.get_running_loop().add_reader(peer.sock, self._look, peer)
        if self._count > limit:
            group = self._silent or self._ready
            crowd = max(group.values(), key=len)
            self._drop(next(iter(crowd)), "too many others wait for a TLS handshake")

    def next_host(self, in_flight: Callable[[str], int]) -> str | None:
        """Return the address whose turn it is: the one with the fewest handshakes in flight."""
        return min(self._ready, key=in_flight, default=None)

    def pop(self, host: str) -> WaitingPeer:
        """Remove and return the first ready peer of an address."""
        peer = next(iter(self._ready[host]))
        _remove(self._ready, peer)
        self._count -= 1
        return peer

    def drop_silent(self, since_ms: int) -> None:
        """Close the peers that were accepted before a time and have said nothing."""
        for peers in list(self._silent.values()):
            for peer in list(peers):
                if peer.since_ms > since_ms:
                    break
                self._drop(peer, "TLS handshake failed: it took too long")

    def close(self) -> None:
        """Close all of them."""
        loop = asyncio.get_running_loop()
        for group in (self._silent, self._ready):
            for peers in group.values():
                for peer in peers:
                    loop.remove_reader(peer.sock)
                    peer.sock.close()
            group.clear()
        self._count = 0

    def _look(self, peer: WaitingPeer) -> None:
        """Decide whether the first record has arrived; until then, the system wakes us by its size."""
        peer.looks += 1
        try:
            head = peer.sock.recv(RECORD_HEAD_BYTES, socket.MSG_PEEK)
            missing = _missing(peer.sock, head) if peer.looks < MAX_LOOKS else 0
            peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, missing or 1)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            head, missing = b"", 0
        if not head:
            self._drop(peer, "TLS handshake failed: the client disconnected")
        elif not missing:
            asyncio.get_running_loop().remove_reader(peer.sock)
            _remove(self._silent, peer)
            self._ready.setdefault(peer.host, {})[peer] = None
            self._on_ready()

    def _drop(self, peer: WaitingPeer, reason: str) -> None:
        asyncio.get_running_loop().remove_reader(peer.sock)
        _remove(self._silent, peer)
        _remove(self._ready, peer)
        self._count -= 1
        self._refuse(peer, reason)


def _missing(sock: socket.socket, head: bytes) -> int:
    """Return how many bytes must be there for the first TLS record; 0 if they are, or if it is no TLS."""
    if head and head[0] != HANDSHAKE_RECORD:
        return 0
    if len(head) < RECORD_HEAD_BYTES:
        return RECORD_HEAD_BYTES
    size = RECORD_HEAD_BYTES + int.from_bytes(head[3:])
    if size > MAX_RECORD_BYTES:
        return 0  # OpenSSL refuses it
    return 0 if len(sock.recv(size, socket.MSG_PEEK)) == size else size


def _remove(group: dict[str, dict[WaitingPeer, None]], peer: WaitingPeer) -> None:
    peers = group.get(peer.host)
    if peers is not None and peer in peers:
        del peers[peer]
        if not peers:
            del group[peer.host]
