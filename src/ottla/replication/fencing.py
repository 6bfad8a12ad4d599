"""Fetches and their answers count only in the leader epoch that they were made for (KIP-320)."""

from __future__ import annotations

from ottla.protocol.errors import FencedLeaderEpoch, NotLeaderOrFollower, UnknownLeaderEpoch


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
