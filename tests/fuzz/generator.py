"""An endless, reproducible stream of frames for one API: good ones, and what mutations make of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.fuzz.messages import World, plausible_request, request_head
from tests.fuzz.mutations import mutated, other_head

FRESH = 0.1
"""How many frames are new; the others are mutations of one of the last."""

POOL = 40
GARBAGE = 0.01


class FrameSource:
    """Frames of `versions` of one API. The same seed gives the same frames, in the same world."""

    def __init__(self, seed: str, world: World, api_key: int, versions: list[int]) -> None:
        self._random = Random(seed)
        self._world = world
        self._api_key = api_key
        self._versions = versions
        self._pool: list[tuple[bytes, int]] = []

    def take(self, count: int) -> Iterator[bytes]:
        """Yield the next `count` frames."""
        for _ in range(count):
            yield self._next()

    def _next(self) -> bytes:
        random = self._random
        if len(self._pool) < POOL or random.random() < FRESH:
            version = random.choice(self._versions)
            frame = plausible_request(random, self._world, self._api_key, version)
            known = (frame, len(request_head(self._api_key, version, 0)))
            if len(self._pool) < POOL:
                self._pool.append(known)
            else:
                self._pool[random.randrange(POOL)] = known
            return frame
        if random.random() < GARBAGE:
            return random.randbytes(random.choice((0, 1, 4, 8, 9, 10, 30, 300)))
        frame, body_at = random.choice(self._pool)
        others = [each for each, _ in self._pool[:8]]
        if random.random() < 0.02:
            return bytes(other_head(random, bytearray(frame), others))
        return mutated(random, frame, body_at, others)
