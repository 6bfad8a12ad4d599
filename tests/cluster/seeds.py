"""Random points in time that can be asked for again: OTTLA_TEST_SEED=n repeats a run's choices."""

from __future__ import annotations

import os
import random


def seeded() -> random.Random:
    """Return a source of choices; its seed is printed, and so shown beside a failure."""
    seed = int(os.environ.get("OTTLA_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"OTTLA_TEST_SEED={seed}")
    return random.Random(seed)
