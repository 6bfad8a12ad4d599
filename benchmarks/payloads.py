"""What records carry: lines of JSON that differ, so that compression has something to do."""

from __future__ import annotations

import json
import random
from functools import cache

VARIETY = 1_000
_WORDS = [
    "order",
    "customer",
    "paid",
    "pending",
    "shipped",
    "Graz",
    "Praha",
    "Wien",
    "Brno",
    "amount",
    "note",
    "late",
    "early",
    "first",
    "second",
]


@cache
def values(size: int) -> list[bytes]:
    """Return different values of one size, the same in every run."""
    chance = random.Random(size)
    return [_value(chance, size) for _ in range(VARIETY)]


def _value(chance: random.Random, size: int) -> bytes:
    made = b""
    while len(made) < size:
        fields = {chance.choice(_WORDS): chance.randrange(1_000_000), "is": chance.choice(_WORDS)}
        made += json.dumps(fields).encode()
    return made[:size]
