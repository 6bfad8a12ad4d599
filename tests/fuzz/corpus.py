"""Inputs that are kept: one of every API and version to start from, and all that once did harm.

An input is what a client writes to its socket: frames, each after its size. `python -m tests.fuzz.corpus`
writes the starting points again; the others (`bug-*`, and what atheris found) stay as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from tests.fuzz.messages import plausible_request, served
from tests.fuzz.world import World

FOLDER = Path(__file__).parent / "corpus"
MAX_FRAMES = 20
MAX_BYTES = 1 << 20


def joined(frames: Iterable[bytes]) -> bytes:
    """Return an input made of these frames."""
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def split(data: bytes) -> Iterator[bytes]:
    """Yield the frames of an input; one whose size is a lie has all that is left."""
    for _ in range(MAX_FRAMES):
        if len(data) < 4:
            return
        (size,) = struct.unpack_from(">i", data)
        end = 4 + size if 0 <= size <= len(data) - 4 else len(data)
        yield data[4:end]
        data = data[end:]


def write_starting_points(world: World) -> None:
    """Write a request of every API and version, about the topics of `world`."""
    FOLDER.mkdir(exist_ok=True)
    for key, versions in served():
        for version in versions:
            random = Random(f"{key.name}/{version}")
            frames = [plausible_request(random, world, key, version) for _ in range(8)]
            best = max((each for each in frames if len(each) < 600), key=len, default=min(frames, key=len))
            (FOLDER / f"{key.name.lower()}-v{version:02}").write_bytes(joined([best]))


if __name__ == "__main__":
    import tempfile

    from tests.fuzz.harness import FuzzBroker

    with tempfile.TemporaryDirectory() as folder, FuzzBroker(Path(folder) / "data") as broker:
        write_starting_points(broker.world)
