"""Map keys to their latest offsets in a fixed amount of memory, for the dirty part of a log.

A key is stored as a 16-byte BLAKE2s digest, so that a map of N slots takes 24 x N bytes regardless of the
keys. Two tables share the slot number:

    digests   16 bytes per slot
    marks     int64 per slot: offset + 1, 0 = the slot is free

Collisions are resolved by double hashing over a prime number of slots: the probe sequence visits every slot
before it repeats. The digest is salted per map, so that a client cannot choose keys that share slots. There
are no deletions. Losing a record to a collision takes two keys with the same 128-bit digest.
"""

from __future__ import annotations

from hashlib import blake2s

from ottla.common.ids import new_uuid

DIGEST_BYTES = 16
ENTRY_BYTES = DIGEST_BYTES + 8
_SALT_BYTES = 8
DEFAULT_LOAD_FACTOR = 0.9


class OffsetMap:
    """The latest offset of up to `capacity` keys."""

    def __init__(self, slots: int, load_factor: float = DEFAULT_LOAD_FACTOR) -> None:
        self._slots = _prime_at_most(max(slots, 3))
        # One slot always stays free: it is what ends the search for a key that is not there.
        self.capacity = max(1, min(int(self._slots * load_factor), self._slots - 1))
        self._digests = bytearray(self._slots * DIGEST_BYTES)
        self._marks = memoryview(bytearray(self._slots * 8)).cast("q")
        self._salt = new_uuid().bytes[:_SALT_BYTES]
        self._count = 0

    @classmethod
    def sized(cls, offsets: int, budget_bytes: int, load_factor: float = DEFAULT_LOAD_FACTOR) -> OffsetMap:
        """Return a map for a range of `offsets` offsets that takes at most `budget_bytes`.

        A range has no more keys than offsets, so a small one does not need the whole budget.
        """
        wanted = int(offsets / load_factor) + 64
        return cls(min(wanted, budget_bytes // ENTRY_BYTES), load_factor)

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """Return the size of the two tables."""
        return self._slots * ENTRY_BYTES

    def put(self, key: bytes, offset: int) -> bool:
        """Store that `key` was last written at `offset`; False if the map is full and the key is new."""
        digest = blake2s(key, digest_size=DIGEST_BYTES, salt=self._salt).digest()
        slot = self._find(digest)
        if not self._marks[slot]:
            if self._count >= self.capacity:
                return False
            self._count += 1
            self._digests[slot * DIGEST_BYTES : (slot + 1) * DIGEST_BYTES] = digest
        self._marks[slot] = offset + 1
        return True

    def get(self, key: bytes) -> int:
        """Return the latest offset of `key`, or -1 if it was never put."""
        return self._marks[self._find(blake2s(key, digest_size=DIGEST_BYTES, salt=self._salt).digest())] - 1

    def _find(self, digest: bytes) -> int:
        """Return the slot that holds `digest`, or the free slot where it belongs."""
        marks, digests, slots = self._marks, self._digests, self._slots
        whole = int.from_bytes(digest, "little")
        slot = whole % slots
        if not marks[slot] or digests[slot * DIGEST_BYTES : (slot + 1) * DIGEST_BYTES] == digest:
            return slot
        step = 1 + (whole >> 64) % (slots - 1)
        while True:
            slot = (slot + step) % slots
            if not marks[slot] or digests[slot * DIGEST_BYTES : (slot + 1) * DIGEST_BYTES] == digest:
                return slot


def _prime_at_most(number: int) -> int:
    """Return the largest prime that is not above `number` (at least 3)."""
    candidate = number - 1 if number % 2 == 0 else number
    while any(candidate % divisor == 0 for divisor in range(3, int(candidate**0.5) + 1, 2)):
        candidate -= 2
    return max(candidate, 3)
