"""Why a leader has sent nothing for a range, and when that proves that no record is left in it.

A leader reads up to its high watermark, or for readers of committed records up to its last stable offset,
and sends at least one batch if there is any: to the first partition of an answer that has one, so that only
an answer without any batch says something about each of its partitions. If then the leader's limit is not
before the end of the range, and the offset is in the leader's own log, nothing is there. (What Kafka keeps in
tiered storage may come too late for an answer, which then is as empty.) Everything else is to be waited for.
"""

from __future__ import annotations

from enum import Enum

from ottla.protocol.fetch_client import Fetched


class Empty(Enum):
    """Why nothing came; the value ends the sentence "it was not sent, because ..."."""

    NO_ROOM = "other partitions are sent first"
    ELSEWHERE = "its leader wants another broker to be asked"
    END_BEHIND = "its leader does not know yet that it is committed"
    OPEN_TRANSACTION = "a transaction before it is still open (ottla txn list shows which)"
    NOT_IN_LOG = "its leader has no record there, unless it comes from tiered storage"


def why_empty(fetched: Fetched, range_end: int, *, committed_only: bool, had_room: bool) -> Empty:
    """Return why nothing came; `had_room`: nothing came for the other partitions of the answer either."""
    if not had_room:
        return Empty.NO_ROOM
    if fetched.preferred_replica >= 0:
        return Empty.ELSEWHERE
    if fetched.high_watermark < range_end:
        return Empty.END_BEHIND
    if committed_only and fetched.last_stable_offset < range_end:
        return Empty.OPEN_TRANSACTION
    return Empty.NOT_IN_LOG
