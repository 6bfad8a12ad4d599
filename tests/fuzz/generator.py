"""An endless, reproducible stream of frames for one API: good ones, and what mutations make of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from tests.fuzz.messages import plausible_request, request_head
from tests.fuzz.mutations import mutated, other_head
from tests.fuzz.world import World

from ottla.protocol.api_keys import ApiKey

FRESH = 0.3
"""How many frames are new and make sense; the others are mutations of one of the last."""

GARBAGE = 0.01
OTHER_HEAD = 0.02
COMPANION = 0.2
POOL = 40

COMPANIONS: dict[int, tuple[tuple[ApiKey, int], ...]] = {
    ApiKey.FETCH: ((ApiKey.PRODUCE, 9), (ApiKey.DELETE_RECORDS, 2)),
    ApiKey.LIST_OFFSETS: ((ApiKey.PRODUCE, 9),),
    ApiKey.DELETE_RECORDS: ((ApiKey.PRODUCE, 9),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ((ApiKey.PRODUCE, 9),),
    ApiKey.OFFSET_FETCH: ((ApiKey.OFFSET_COMMIT, 5),),
    ApiKey.OFFSET_DELETE: ((ApiKey.OFFSET_COMMIT, 5), (ApiKey.JOIN_GROUP, 3)),
    ApiKey.OFFSET_COMMIT: ((ApiKey.JOIN_GROUP, 3), (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0)),
    ApiKey.HEARTBEAT: ((ApiKey.JOIN_GROUP, 3), (ApiKey.JOIN_GROUP, 9)),
    ApiKey.SYNC_GROUP: ((ApiKey.JOIN_GROUP, 3), (ApiKey.JOIN_GROUP, 9)),
    ApiKey.LEAVE_GROUP: ((ApiKey.JOIN_GROUP, 3), (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0)),
    ApiKey.JOIN_GROUP: ((ApiKey.CONSUMER_GROUP_HEARTBEAT, 0), (ApiKey.SYNC_GROUP, 3)),
    ApiKey.DESCRIBE_GROUPS: ((ApiKey.JOIN_GROUP, 3), (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0)),
    ApiKey.DELETE_GROUPS: ((ApiKey.OFFSET_COMMIT, 5), (ApiKey.JOIN_GROUP, 3)),
    ApiKey.LIST_GROUPS: ((ApiKey.JOIN_GROUP, 3), (ApiKey.OFFSET_COMMIT, 5)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ((ApiKey.JOIN_GROUP, 3), (ApiKey.CREATE_TOPICS, 7)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ((ApiKey.CONSUMER_GROUP_HEARTBEAT, 0), (ApiKey.JOIN_GROUP, 3)),
}
"""The requests that give an API something to work on: records to fetch, members to hear from."""


class FrameSource:
    """Frames of one API, in all of its versions. The same seed gives the same frames, in the same world."""

    def __init__(self, seed: str, world: World, api_key: int, versions: Sequence[int]) -> None:
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
            return self._fresh()
        if random.random() < GARBAGE:
            return random.randbytes(random.choice((0, 1, 4, 8, 9, 10, 30, 300)))
        frame, body_at = random.choice(self._pool)
        others = [each for each, _ in self._pool[:8]]
        if random.random() < OTHER_HEAD:
            return bytes(other_head(random, bytearray(frame), others))
        return mutated(random, frame, body_at, others)

    def _fresh(self) -> bytes:
        random = self._random
        companions = COMPANIONS.get(self._api_key)
        if companions and random.random() < COMPANION:
            return plausible_request(random, self._world, *random.choice(companions))
        version = random.choice(self._versions)
        frame = plausible_request(random, self._world, self._api_key, version)
        if len(self._pool) >= POOL:
            self._pool.pop(random.randrange(POOL))
        self._pool.append((frame, len(request_head(self._api_key, version, 0))))
        return frame
