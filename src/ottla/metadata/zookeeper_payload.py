"""How the entries and snapshots of the metadata log are written into nodes of ZooKeeper.

    line 1   {"v":1,"controller_epoch":7,"id":"...","encoding":"text","body_bytes":321,"crc":123456,"parts":0}
    rest     the records: lines of JSON (records.py), deflated where `encoding` is "zlib"

A node may hold 1 MB at most. What is larger is cut into parts, which are nodes of their own, written first;
then the node holds only line 1, with the number of parts. `id` is different for every append: it tells a
controller that lost the answer whether it was its own append that happened. `body_bytes` and `crc` (CRC32C)
are those of the encoded records.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

from crc32c import crc32c

from ottla.metadata.records import MetadataError

DEFLATE_ABOVE_BYTES = 4096
PART_BYTES = 512 * 1024
MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Payload:
    """Records on their way to ZooKeeper: a node, and the parts that come before it."""

    node: bytes
    parts: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """Line 1 of a node, and the rest of it."""

    controller_epoch: int
    id: str
    encoding: str
    body_bytes: int
    crc: int
    parts: int
    body: bytes


def pack(text: str, controller_epoch: int, append_id: str) -> Payload:
    """Return what to write for records that are written down as `text`."""
    body, encoding = text.encode(), "text"
    if len(body) > DEFLATE_ABOVE_BYTES:
        body, encoding = zlib.compress(body, 1), "zlib"
    parts: tuple[bytes, ...] = ()
    if len(body) > PART_BYTES:
        parts = tuple(body[at : at + PART_BYTES] for at in range(0, len(body), PART_BYTES))
    header: dict[str, Any] = {"v": 1, "controller_epoch": controller_epoch, "id": append_id}
    header |= {"encoding": encoding, "body_bytes": len(body), "crc": crc32c(body), "parts": len(parts)}
    line = json.dumps(header, separators=(",", ":")).encode() + b"\n"
    return Payload(line if parts else line + body, parts)


def read_header(node: bytes, path: str) -> Header:
    """Return line 1 of the node at `path`."""
    line, _, body = node.partition(b"\n")
    try:
        values: dict[str, Any] = json.loads(line)
        if values.pop("v") != 1:
            raise MetadataError(f"{path} was written by a newer Ottla; start that version")
        return Header(**values, body=body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MetadataError(f"{path} in ZooKeeper is not an entry of Ottla's metadata") from error


def unpack(header: Header, body: bytes, path: str) -> str:
    """Return the text of the records; `body` is the header's, or the parts joined together."""
    if len(body) != header.body_bytes or crc32c(body) != header.crc:
        raise MetadataError(f"{path} in ZooKeeper is damaged: it fails its checksum")
    if header.encoding == "zlib":
        inflating = zlib.decompressobj()
        body = inflating.decompress(body, MOST_BYTES)
        if inflating.unconsumed_tail:
            raise MetadataError(f"{path} in ZooKeeper is larger than {MOST_BYTES} bytes")
    return body.decode()
