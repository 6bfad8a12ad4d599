"""EndTxn v5 as a client sees it, written and read at once: a producer waits for it after every transaction.

    request    compact string transactional_id, int64 producer_id, int16 producer_epoch, bool committed, tags
    response   int32 throttle_ms, int16 error_code, int64 producer_id, int16 producer_epoch, tags

Only an end that went well is read here; for all else there is the general way (messages.py).
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from ottla.protocol.primitives import encode_compact_string

VERSION = 5

_REQUEST = Struct(">qh?B")
_RESPONSE = Struct(">ihqhB")

_encode_id = lru_cache(maxsize=1024)(encode_compact_string)


def encode_end(transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool) -> bytes:
    """Return the body of a request."""
    return _encode_id(transactional_id) + _REQUEST.pack(producer_id, producer_epoch, commit, 0)


def decode_ended(frame: memoryview, at: int) -> tuple[int, int] | None:
    """Return the producer id and epoch from now on; None if the answer says anything but that."""
    if len(frame) - at != _RESPONSE.size:
        return None
    _, error_code, producer_id, producer_epoch, tags = _RESPONSE.unpack_from(frame, at)
    if error_code or tags or producer_id < 0:
        return None
    return producer_id, producer_epoch
