"""The effects that a state machine asks of its runtime. Plain data, compared by value.

An event (a request, a timer, a new cluster image) goes into a machine, a `Step` comes out of it. The
machine itself has not changed by then: the runtime appends the records, and only when the log has them
does it change the machine, by `replay(record)` for every record and `apply(change)` for every change.
So a step whose records cannot be written has not happened, and there is nothing to undo.

Records survive: replaying all of them gives the machine's state after a failover. Changes need not survive
(which members wait for a rebalance, with which request), and are never written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.protocol.errors import KafkaError

R = TypeVar("R", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InTransaction:
    """A record that was written in a transaction; a `Marker` commits or aborts it.

    In the log it is in a transactional batch of that producer. Either all records of a step are of one
    producer's transaction, or none is.
    """

    producer_id: int
    producer_epoch: int
    record: object


TimerKey = tuple[str, ...]
"""The purpose of a timer, then its subject: `("session", group_id, member_id)`."""


class SetTimer(NamedTuple):
    """Call `on_timer(key)` at `at_ms`; a second one with this key replaces the first.

    `at_ms` is on the clock of the `now_ms` that the machine was given. The runtime uses the difference,
    so that a jump of the wall clock moves no deadline.
    """

    key: TimerKey
    at_ms: int


class CancelTimer(NamedTuple):
    """Forget the timer `key`, if there is one."""

    key: TimerKey


Timer = SetTimer | CancelTimer


class Reply(NamedTuple, Generic[R]):
    """The response to the request `token`, which may have been parked long ago.

    A response that is a `KafkaError` is raised where the request waits.
    """

    token: int
    response: R | KafkaError


class Step(NamedTuple, Generic[R]):
    """The outcome of one event: append the records, apply the changes, and once committed reply and send.

    R is the type of the response to the event itself. `replies` may answer parked requests as well.
    """

    records: tuple[object, ...] = ()
    changes: tuple[object, ...] = ()
    replies: tuple[Reply[Any], ...] = ()
    timers: tuple[Timer, ...] = ()
    sends: tuple[object, ...] = ()
    """Messages that may leave only once the records are committed: the runtime's owner sends them."""


NOTHING: Step[Any] = Step()


def reply_only(token: int, response: T) -> Step[T]:
    """Return a step that changes nothing, and replies to its own request."""
    return Step(replies=(Reply(token, response),))
