"""Record batches that no honest client sends, and a few that one might."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ottla.protocol.primitives import encode_varint
from ottla.protocol.records.batch import HEADER, HEADER_BYTES, LOG_OVERHEAD, crc_of
from ottla.protocol.records.compression import CODEC_NAMES, compress
from ottla.protocol.records.records import Record, encode_batch

CODECS = range(len(CODEC_NAMES))
NOW_MS = 1_700_000_000_000
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
EDGES_16 = (-(2**15), -2, -1, 0, 1, 2**15 - 1)
EDGES_32 = (INT32_MIN, -2, -1, 0, 1, 2, 255, 65_536, INT32_MAX)
EDGES_64 = (INT64_MIN, -2, -1, 0, 1, NOW_MS, 2**31, 2**53, INT64_MAX)

MAX_TINY_RECORDS = 1_190_000
"""As many as fit into the 8 MiB that a batch may decompress to."""

Build = Callable[[Random], bytes]


def sealed(payload: bytes, *, crc: int | None = None, **fields: int) -> bytes:
    """Return a batch around `payload`, with any header; the CRC is right unless it is given."""
    values = {
        "base_offset": 0,
        "batch_length": HEADER_BYTES - LOG_OVERHEAD + len(payload),
        "leader_epoch": -1,
        "magic": 2,
        "crc": 0,
        "attributes": 0,
        "last_offset_delta": 0,
        "base_timestamp": NOW_MS,
        "max_timestamp": NOW_MS,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": 1,
        **fields,
    }
    batch = bytearray(HEADER.pack(*values.values())) + payload
    batch[17:21] = (crc_of(batch) if crc is None else crc).to_bytes(4, "big")
    return bytes(batch)


def record_bytes(
    *,
    length: int | None = None,
    timestamp_delta: int = 0,
    offset_delta: int = 0,
    key: int | bytes | None = b"k",
    value: int | bytes | None = b"v",
    headers: int = 0,
) -> bytes:
    """Return one record; a number for the key or value is a length with nothing behind it."""
    body = b"\0" + encode_varint(timestamp_delta) + encode_varint(offset_delta)
    for field in (key, value):
        if isinstance(field, int):
            body += encode_varint(field)
        else:
            body += encode_varint(-1) if field is None else encode_varint(len(field)) + field
    body += encode_varint(headers)
    return encode_varint(len(body) if length is None else length) + body


def honest(random: Random) -> bytes:
    """Return what a client would send."""
    records = [
        Record(
            offset,
            NOW_MS + random.randrange(1000),
            random.choice((b"key", random.randbytes(3), None)),
            random.choice((None, b"", b"value", random.randbytes(40))),
            random.choice(((), (("trace", b"1"), ("none", None)))),
        )
        for offset in range(random.choice((1, 1, 2, 20)))
    ]
    producer = random.choice(((-1, -1, -1), (random.randrange(4), 0, random.choice((0, 1, 20)))))
    return bytes(
        encode_batch(
            records,
            codec=random.choice(CODECS),
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
        )
    )


def lying_header(random: Random) -> bytes:
    """Return a batch of two records with one or two fields of its header set to an edge."""
    payload = record_bytes() + record_bytes(offset_delta=1)
    fields = {"last_offset_delta": 1, "record_count": 2}
    edges = {
        "attributes": EDGES_16 + tuple(range(128)),
        "last_offset_delta": EDGES_32,
        "base_timestamp": EDGES_64,
        "max_timestamp": EDGES_64,
        "producer_id": EDGES_64,
        "producer_epoch": EDGES_16,
        "base_sequence": EDGES_32,
        "record_count": EDGES_32,
        "batch_length": EDGES_32,
        "base_offset": EDGES_64,
        "leader_epoch": EDGES_32,
        "magic": (-128, -1, 0, 1, 2, 3, 127),
    }
    for name in random.sample(list(edges), random.choice((1, 1, 2, 3))):
        fields[name] = random.choice(edges[name])
    if random.random() < 0.5 and "record_count" in fields:
        fields["last_offset_delta"] = max(INT32_MIN, fields["record_count"] - 1)
    return sealed(payload, **fields)


def lying_records(random: Random) -> bytes:
    """Return a batch whose header is right and whose records are not."""
    lies: list[bytes] = [
        record_bytes(length=random.choice(EDGES_32)),
        record_bytes(timestamp_delta=random.choice(EDGES_64)),
        record_bytes(offset_delta=random.choice(EDGES_32)),
        record_bytes(key=random.choice(EDGES_32)),
        record_bytes(value=random.choice(EDGES_32)),
        record_bytes(headers=random.choice(EDGES_32)),
        record_bytes(key=None),
        b"\xff" * random.randrange(1, 20),
        random.randbytes(random.randrange(30)),
        b"",
    ]
    payload = b"".join(random.sample(lies, random.choice((1, 1, 2))))
    codec = random.choice(CODECS)
    count = random.choice((1, 2, 3, 100))
    packed = compress(codec, payload)
    base = random.choice(EDGES_64)
    return sealed(
        packed, attributes=codec, record_count=count, last_offset_delta=count - 1, base_timestamp=base
    )


def broken_payload(random: Random) -> bytes:
    """Return a batch whose compressed block is damaged, cut off, or of another codec."""
    payload = bytearray(compress(random.choice(CODECS), record_bytes(value=random.randbytes(100))))
    for _ in range(random.choice((0, 1, 3))):
        payload[random.randrange(len(payload))] = random.randrange(256)
    cut = random.choice((0, 0, 1, len(payload) // 2))
    return sealed(bytes(payload[: len(payload) - cut]), attributes=random.choice(range(8)))


def wrong_crc(random: Random) -> bytes:
    """Return a good batch with a bad checksum."""
    return sealed(record_bytes(), crc=random.getrandbits(32))


def several(random: Random) -> bytes:
    """Return two batches where one is allowed, or one and a part of the next."""
    both = honest(random) + honest(random)
    return both[: random.choice((len(both), len(both) - 7, HEADER_BYTES, LOG_OVERHEAD, 17))]


def old_format(random: Random) -> bytes:
    """Return a message set of the formats before 2."""
    magic = random.choice((0, 1))
    body = bytes((magic, random.randrange(256))) + (b"\0" * 8 if magic else b"") + b"\xff\xff\xff\xff" * 2
    message = random.randbytes(4) + body
    return bytes(8) + len(message).to_bytes(4, "big") + message


def small_bomb(random: Random) -> bytes:
    """Return a batch that grows a hundredfold: to 1 MB, more than enough to be seen in a hurry."""
    codec = random.choice(CODECS[1:])
    payload = compress(codec, record_bytes(value=bytes(1_000_000)))
    return sealed(payload, attributes=codec)


EVERY_KIND: tuple[Build, ...] = (
    honest,
    lying_header,
    lying_records,
    broken_payload,
    wrong_crc,
    several,
    old_format,
)


def any_batch(random: Random) -> bytes:
    """Return one of all kinds of batches; good ones most often, so that there is something to read."""
    if random.random() < 0.005:
        return small_bomb(random)
    return honest(random) if random.random() < 0.4 else random.choice(EVERY_KIND)(random)


def bomb(codec: int, decompressed_bytes: int) -> bytes:
    """Return a batch with one record of zeros, as large as asked for before compression."""
    payload = compress(codec, record_bytes(value=bytes(decompressed_bytes)))
    return sealed(payload, attributes=codec)


def tiny_records(count: int, codec: int, *, key: bytes | None = b"", max_timestamp: int = NOW_MS) -> bytes:
    """Return a batch of the smallest records there are, all at offset delta 0: they compress to nothing."""
    payload = compress(codec, record_bytes(key=key, value=b"") * count)
    counts = {"record_count": count, "last_offset_delta": count - 1}
    return sealed(payload, attributes=codec, max_timestamp=max_timestamp, **counts)
