"""The pause after failures in a row. Pure code; wire/backoff.py adds the jitter."""

from __future__ import annotations

MAX_DOUBLINGS = 30


def doubled(initial: int, failures: int, maximum: int) -> int:
    """Return `initial` after the first failure, doubled after each further one, up to a maximum."""
    return min(initial << min(max(failures - 1, 0), MAX_DOUBLINGS), maximum)
