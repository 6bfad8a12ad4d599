"""How requests of a connection begin: size, API, version, correlation id, client id. Encoded once per API."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from ottla.protocol.frames import RequestHeader, encode_request_header
from ottla.protocol.primitives import Buffer

JOINED_BYTES = 16_384
"""A request up to this size is written in one piece: to copy it is cheaper than to hand over several."""

_SIZE_AND_IDS = Struct(">ihhi")
_IDS_BYTES = 8


class RequestHeads:
    """The heads of one client's requests."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._tails: dict[tuple[int, int], bytes] = {}
        """What follows the correlation id, by API and version."""

    def pieces(
        self, api_key: int, version: int, correlation_id: int, body: Sequence[Buffer]
    ) -> tuple[Buffer, ...]:
        """Return a whole request, with its head, in as many pieces as are best written."""
        size = sum(map(len, body))
        head = self.encode(api_key, version, correlation_id, size)
        return (head, *body) if size > JOINED_BYTES else (b"".join((head, *body)),)

    def encode(self, api_key: int, version: int, correlation_id: int, body_bytes: int) -> bytes:
        """Return the head of a request, with the size of the frame in front."""
        tail = self._tails.get((api_key, version))
        if tail is None:
            header = encode_request_header(RequestHeader(api_key, version, 0, self._client_id))
            tail = self._tails[api_key, version] = header[_IDS_BYTES:]
        size = _IDS_BYTES + len(tail) + body_bytes
        return _SIZE_AND_IDS.pack(size, api_key, version, correlation_id) + tail
