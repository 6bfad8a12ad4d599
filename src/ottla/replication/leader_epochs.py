"""Fence fetches by leader epoch, and find where a follower's log diverges from its leader's.

A fetch and its response are valid only in the leader epoch that they were made for (KIP-320). Logs are
compared by leader epochs, never by high watermarks (KIP-101, KIP-279): a follower fetches with the epoch of
its last record. If the leader's log has something else there, it responds with the largest epoch that both
may have in common, and its end offset. The follower truncates its log to where the two can agree, and fetches
again; each round goes back at least one epoch.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.protocol.errors import FencedLeaderEpoch, NotLeaderOrFollower, UnknownLeaderEpoch


class EpochEnd(NamedTuple):
    """A leader epoch and the offset after its last record; -1 and -1 if it is unknown."""

    epoch: int
    end_offset: int


def truncation_offset(leaders: EpochEnd, own: EpochEnd, log_end_offset: int, high_watermark: int) -> int:
    """Return where a follower has to truncate its log.

    `leaders` is the leader's response, `own` the largest epoch up to that one in the follower's log. The high
    watermark is not used: what is above it may be committed, what is below it may be gone after an unclean
    election.
    """
    del high_watermark
    if own.end_offset < 0:
        return min(leaders.end_offset, log_end_offset)  # nothing in common that we know of
    if own.epoch != leaders.epoch:
        return min(own.end_offset, log_end_offset)  # the leader's epoch is not ours: go back to one before
    return min(own.end_offset, leaders.end_offset, log_end_offset)


def diverges(requested_epoch: int, fetch_offset: int, found: EpochEnd) -> bool:
    """Return whether a log whose largest epoch up to `requested_epoch` is `found` differs there."""
    return found.epoch < requested_epoch or found.end_offset < fetch_offset


def check_epoch(requested: int, current: int) -> None:
    """Reject a follower whose leader epoch differs from the leader's, or is missing."""
    if requested == current:
        return
    if requested < current:
        raise FencedLeaderEpoch(f"{requested} < {current}")
    raise UnknownLeaderEpoch(f"{requested} > {current}")


def check_broker_epoch(requested: int, known: int) -> None:
    """Reject a fetch from an earlier incarnation of a broker (KIP-903)."""
    if requested < known:
        raise NotLeaderOrFollower(f"broker epoch {requested} is of an earlier incarnation, {known} was seen")


def is_current_epoch(requested: int, current: int) -> bool:
    """Return whether a follower may use the response to a fetch that it made in epoch `requested`."""
    return requested == current
