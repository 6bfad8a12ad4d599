"""Fetches and their answers count only in the leader epoch that they were made for (KIP-320)."""

from __future__ import annotations

from typing import NamedTuple

from ottla.protocol.errors import FencedLeaderEpoch, NotLeaderOrFollower, UnknownLeaderEpoch

# Where a follower's log parts from its leader's: by leader epochs, never by high watermarks (KIP-101, 279).
#
# A follower fetches with the epoch of its last record. If the leader's log has something else there it
# answers with the largest epoch that both may have in common, and where that ends in its log. The follower
# cuts its log back to where the two can agree, and asks again; each round goes back at least one epoch.


class EpochEnd(NamedTuple):
    """A leader epoch and the offset after its last record; -1 and -1 if nothing is known."""

    epoch: int
    end_offset: int


def truncation_offset(leaders: EpochEnd, own: EpochEnd, log_end_offset: int, high_watermark: int) -> int:
    """Return where a follower has to cut off its log.

    `leaders` is the leader's answer, `own` the largest epoch up to that one in the follower's log. The high
    watermark plays no part: what is above it may be committed, what is below it may be gone after an unclean
    election.
    """
    del high_watermark
    if own.end_offset < 0:
        return min(leaders.end_offset, log_end_offset)  # nothing in common that we know of
    if own.epoch != leaders.epoch:
        return min(own.end_offset, log_end_offset)  # the leader's epoch is not ours: go back to one before
    return min(own.end_offset, leaders.end_offset, log_end_offset)


def diverges(asked_epoch: int, fetch_offset: int, found: EpochEnd) -> bool:
    """Return whether a log, in which `found` is the largest epoch up to `asked_epoch`, differs there."""
    return found.epoch < asked_epoch or found.end_offset < fetch_offset


def check_epoch(asked: int, current: int) -> None:
    """Refuse a follower whose leader epoch is not the leader's, or that names none."""
    if asked == current:
        return
    if asked < current:
        raise FencedLeaderEpoch(f"{asked} < {current}")
    raise UnknownLeaderEpoch(f"{asked} > {current}")


def check_broker_epoch(asked: int, known: int) -> None:
    """Refuse a fetch of an earlier incarnation of a broker (KIP-903)."""
    if asked < known:
        raise NotLeaderOrFollower(f"broker epoch {asked} is of an earlier incarnation, {known} was seen")


def answers_this_epoch(asked: int, current: int) -> bool:
    """Return whether a follower may use an answer to a fetch that it made in epoch `asked`."""
    return asked == current
