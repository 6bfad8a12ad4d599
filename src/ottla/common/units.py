"""Sizes and durations with names, and the largest numbers that Java's types hold."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

SECOND_MS: Final = 1000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

MAX_SHORT: Final = 2**15 - 1
MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1
"""Kafka's way of saying "never" and "without limit"."""
