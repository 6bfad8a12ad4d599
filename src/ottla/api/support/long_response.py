"""Encode a long response in parts, so that it does not block the event loop.

It works for responses that consist of a throttle time and one array. Every part is encoded as a response of
its own with some of the elements; the common prefix and suffix are cut off, and the elements are joined:

    int32 throttle time, array length (int32, or a varint of length + 1 if flexible), elements,
    tagged fields (one byte, if flexible)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from struct import Struct
from typing import Any

from ottla.api.support.context import RequestContext
from ottla.protocol.frames import encode_frame, encode_response_header
from ottla.protocol.primitives import encode_uvarint
from ottla.protocol.schema.messages import response_class, response_encoder

_INT32 = Struct(">i")
_THROTTLE_BYTES = 4


async def encode_in_parts(
    ctx: RequestContext, as_version: int, parts: AsyncIterator[tuple[int, Any]]
) -> bytes:
    """Return the frame of one response; a part is the number of its elements and a response."""
    encode = response_encoder(ctx.api_key, ctx.version, as_version)
    flexible: bool = response_class(ctx.api_key, ctx.version).__flexible__
    elements: list[bytes] = []
    total = 0
    async for count, response in parts:
        body = encode(response)
        length = _array_length(count, flexible)
        end = len(body) - 1 if flexible else len(body)
        elements.append(body[_THROTTLE_BYTES + len(length) : end])
        total += count
    header = encode_response_header(ctx.api_key, ctx.version, ctx.correlation_id)
    body = b"".join((bytes(_THROTTLE_BYTES), _array_length(total, flexible), *elements, b"\0" * flexible))
    return encode_frame(header, body)


def _array_length(count: int, flexible: bool) -> bytes:
    return encode_uvarint(count + 1) if flexible else _INT32.pack(count)
