"""What is right and what is wrong about the way a broker takes an input."""

from __future__ import annotations

import gc
import logging
import os
import struct
from typing import Any

import psutil

from ottla.common.file_range import FileRange
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.frames import decode_response_header
from ottla.protocol.schema.messages import response_decoder

SHOWN_BYTES = 4096
SHOWN_FRAMES = 50
KEYS = frozenset(ApiKey)


class Problem(AssertionError):
    """The broker did something that no input may make it do."""


class TooSlow(Problem):
    """One turn of the loop took too long; once may be the machine's fault."""


def describe(what: str, *frames: bytes) -> str:
    """Say what happened, and with which frames it can be made to happen again."""
    return "\n".join([what, *map(_show, frames[:SHOWN_FRAMES])])


def _show(frame: bytes) -> str:
    name = "a frame too short to have an API key"
    if len(frame) >= 4:
        key, version = struct.unpack_from(">hh", frame)
        name = f"{ApiKey(key).name if key in KEYS else key} v{version}"
    rest = f"... {len(frame)} bytes" if len(frame) > SHOWN_BYTES else ""
    return f"  {name}: {frame[:SHOWN_BYTES].hex()}{rest}"


class Complaints(logging.Handler):
    """Everything that the broker logs as an error: that is a bug of ours, whatever the client sent."""

    LOGGERS = ("ottla", "asyncio")

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._found: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def listen(self) -> None:
        """Begin to listen."""
        for name in self.LOGGERS:
            logging.getLogger(name).addHandler(self)

    def close(self) -> None:
        """Listen no more."""
        for name in self.LOGGERS:
            logging.getLogger(name).removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Remember it."""
        self._found.append(self.format(record))

    def check(self, *frames: bytes) -> None:
        """Raise Problem if there was anything since the last check."""
        if self._found:
            found, self._found = "\n".join(self._found), []
            raise Problem(describe(f"the broker logged an error:\n{found}", *frames))


def check_reply(frame: bytes, reply: Any) -> Any:
    """Return a reply as a message. It must be one frame that answers `frame`."""
    parts = [reply] if isinstance(reply, bytes) else reply
    whole = b"".join(each.read() if isinstance(each, FileRange) else bytes(each) for each in parts)
    if len(whole) < 8 or struct.unpack_from(">i", whole)[0] != len(whole) - 4:
        raise Problem(describe(f"the answer is no whole frame: {whole[:64].hex()}", frame))
    if whole[4:8] != frame[4:8]:
        raise Problem(describe("the answer has another correlation id", frame))
    api_key, version = struct.unpack_from(">hh", frame)
    if api_key == ApiKey.API_VERSIONS and version > 4:
        version = 0  # as it must be, for clients from the future
    try:
        _, at = decode_response_header(whole[4:], api_key, version)
        return response_decoder(api_key, version, version)(whole, at + 4)
    except KafkaError as error:
        raise Problem(describe(f"the answer cannot be decoded: {error}: {whole.hex()}", frame)) from error


class Usage:
    """What the process holds, to be compared with what it held before."""

    def __init__(self) -> None:
        gc.collect()
        self.objects = len(gc.get_objects())
        process = psutil.Process(os.getpid())
        self.rss_bytes = process.memory_info().rss
        self.descriptors = process.num_fds()

    def __repr__(self) -> str:
        return f"{self.objects} objects, {self.rss_bytes >> 10} KiB, {self.descriptors} descriptors"
