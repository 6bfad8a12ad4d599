"""Close the connection of librdkafka instead of answering OffsetFetch with a coordinator's error.

Problem: a member of librdkafka asks for the committed offsets of the partitions that it was just assigned. If
the answer is NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE, librdkafka (2.16, its issue 5586) looks up the
coordinator, but never asks again: it reads none of these partitions, nor any that it is assigned later, until
it leaves the group. It happens whenever a group's coordinator moves during a rebalance, with every broker.

Solution: close the connection. A broken connection makes librdkafka look up the coordinator and repeat the
request. The connection is its own for the coordinator, and carries nothing else.
"""

from __future__ import annotations

from ottla.api.support.context import LIBRDKAFKA, RequestContext
from ottla.protocol.errors import CoordinatorNotAvailable, KafkaError, NotCoordinator


class CloseConnection(Exception):
    """A request that gets no answer: its connection is closed, for the reason `error`."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(str(error))
        self.error = error


def check_retried(ctx: RequestContext, error: KafkaError) -> None:
    """Raise Unanswered if the client would not retry an OffsetFetch that fails with this error."""
    if isinstance(error, NotCoordinator | CoordinatorNotAvailable) and LIBRDKAFKA in ctx.connection.software:
        raise CloseConnection(error)
