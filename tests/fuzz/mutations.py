"""What a hostile peer does to a good frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

LENGTHS_16 = (b"\x7f\xff", b"\xff\xff", b"\xff\xfe", b"\x80\x00", b"\x00\x00", b"\x00\x01")
LENGTHS_32 = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x80\x00\x00\x00",
    b"\x00\x00\x00\x00",
    b"\x00\x00\x00\x01",
    b"\x00\x01\x00\x00",
    b"\x01\x00\x00\x00",
)
VARINTS = (
    b"\xff\xff\xff\xff\x0f",  # 2^32 - 1
    b"\xff\xff\xff\xff\x7f",  # more than 32 bits
    b"\x80\x80\x80\x80\x08",  # 2^31
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a varlong
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",  # never ends
    b"\x80\x00",  # zero, written long
    b"\x81\x80\x04",  # 65,537
    b"\x7f",
    b"\x00",
)
TAGGED = (b"\x01\x00\x00", b"\x01\x05\x01\xff", b"\x02\x00\x00\x00\x00", b"\x40" + b"\x00\x00" * 64, b"\x41")

Mutate = Callable[[Random, bytearray, Sequence[bytes]], bytearray]


def flip_bits(random: Random, frame: bytearray, _others: Sequence[bytes]) -> bytearray:
    """Turn a few bits over."""
    for _ in range(random.choice((1, 1, 2, 8))):
        frame[random.randrange(len(frame))] ^= 1 << random.randrange(8)
    return frame


def overwrite(random: Random, frame: bytearray, _others: Sequence[bytes]) -> bytearray:
    """Put random bytes over some of it."""
    at = random.randrange(len(frame))
    frame[at : at + random.choice((1, 2, 4, 8))] = random.randbytes(random.choice((1, 2, 4, 8)))
    return frame


def lie(random: Random, frame: bytearray, _others: Sequence[bytes]) -> bytearray:
    """Put an extreme length or count in the place of some bytes."""
    at = random.randrange(len(frame))
    value = random.choice(random.choice((LENGTHS_16, LENGTHS_32, VARINTS)))
    size = random.choice((len(value), len(value), 1))
    frame[at : at + size] = value
    return frame


def truncate(random: Random, frame: bytearray, _others: Sequence[bytes]) -> bytearray:
    """Cut the end off."""
    del frame[random.randrange(len(frame)) :]
    return frame


def remove(random: Random, frame: bytearray, _others: Sequence[bytes]) -> bytearray:
    """Take some bytes out of the middle."""
    at = random.randrange(len(frame))
    del frame[at : at + random.choice((1, 2, 4, 16))]
    return frame


def insert(random: Random, frame: bytearray, _others: Sequence[bytes]) -> bytearray:
    """Put bytes in that look like tagged fields, varints or nothing at all."""
    at = random.randrange(len(frame) + 1)
    frame[at:at] = random.choice((random.choice(TAGGED), random.choice(VARINTS), random.randbytes(3)))
    return frame


def repeat(random: Random, frame: bytearray, _others: Sequence[bytes]) -> bytearray:
    """Write a stretch of it several times."""
    at = random.randrange(len(frame))
    part = frame[at : at + random.choice((1, 4, 20, 100))]
    frame[at:at] = part * random.choice((1, 3, 20))
    return frame


def splice(random: Random, frame: bytearray, others: Sequence[bytes]) -> bytearray:
    """Go on with the rest of another message."""
    other = random.choice(others)
    return frame[: random.randrange(len(frame) + 1)] + other[random.randrange(len(other) + 1) :]


def other_head(random: Random, frame: bytearray, others: Sequence[bytes]) -> bytearray:
    """Say that it is another API, or another version of it."""
    if random.random() < 0.5:
        frame[:4] = random.choice(others)[:4]
    else:
        frame[2:4] = random.choice((random.randrange(20), random.getrandbits(16))).to_bytes(2, "big")
    return frame


EVERY_MUTATION: tuple[Mutate, ...] = (
    flip_bits,
    overwrite,
    lie,
    truncate,
    remove,
    insert,
    repeat,
    splice,
)


def mutated(random: Random, frame: bytes, body_at: int, others: Sequence[bytes]) -> bytes:
    """Return the frame after one or a few mutations, mostly of its body; `others` are for splicing."""
    at = body_at if body_at < len(frame) and random.random() < 0.9 else 0
    damaged = bytearray(frame[at:])
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if not damaged:
            break
        damaged = random.choice(EVERY_MUTATION)(random, damaged, others)
    return frame[:at] + bytes(damaged)
