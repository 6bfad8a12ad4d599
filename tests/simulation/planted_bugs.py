"""Where planted bugs were found last, and the search for them.

Each must be found within 300 seeds. The search begins at the seed that found it last, so that it is over
soon; a change of the brokers or of the plans may move it to another seed.
"""

from __future__ import annotations

from itertools import chain

from ottla.testing.simulate import run_seed
from ottla.testing.simulation.bugs import planted

MAX_SEEDS = 300

LAST_FOUND = {
    "truncate-to-high-watermark": 4,
    "unfenced-fetch": 62,
    "early-isr-join": 110,
    "no-maximal-isr": 6,
    "own-minimum": 64,
    "unclean-last-replica": 6,
    "empty-disk-leads": 6,
    "one-candidacy": 148,
    "follow-any-store": 4,
    "ack-before-followers": 3,
    "no-min-insync": 73,
    "ack-before-flush": 16,
    "leader-drops-records": 18,
    "no-sequence-check": 3,
    "forgotten-producers": 1,
    "producers-of-leaders-only": 0,
    "uncommitted-reads": 0,
    "early-answers": 8,
    "commits-one-too-many": 1,
    "commits-of-anyone": 7,
}
"""By `--workload records`, the default."""

LAST_FOUND_BY_DISKS = {
    "replaced-disk-is-whole": 6,
    "failed-disk-leads": 2,
}
"""By `--workload disks`."""

LAST_FOUND_BY_COMPACTION = {
    "tombstones-are-not-waited-for": 19,
}
"""By `--workload compaction`."""

LAST_FOUND_BY_TRANSACTIONS = {
    "ended-is-stable": 162,
    "no-new-epoch-on-abort": 3,
    "no-index-on-followers": 0,
    "prepared-times-out": 1,
    "forgotten-markers": 4,
    "endless-markers": 0,
    "offsets-at-once": 1,
    "early-answers": 13,
}
"""By `--workload transactions`."""


def find_planted(bug: str, workload: str, first: int) -> int | None:
    """Return the seed that finds a bug, None if no seed below 300 does."""
    with planted(bug):
        for seed in chain(range(first, MAX_SEEDS), range(first)):
            if violations := run_seed(seed, workload=workload).violations:
                print(f"{bug}: --workload {workload} --seed {seed}: {violations[0]}")
                return seed
    return None
