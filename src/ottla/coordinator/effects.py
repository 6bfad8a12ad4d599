"""What a state machine may ask of its runtime. Plain data, compared by value.

An event (a request, a timer, a new cluster image) goes into a machine, a `Step` comes out of it. The
machine itself has not changed by then: the runtime appends the records, and only when the log has them
does it change the machine, by `replay(record)` for every record and `apply(change)` for every change.
So a step whose records cannot be written has not happened, and nobody has to undo anything.

Records are what survives: replaying all of them gives the machine's state after a failover. Changes are
what need not survive: who waits for a rebalance, with which request. They are never written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

# A machine's records that count only once a transaction commits.


@dataclass(frozen=True, slots=True)
class InTransaction:
    """A record that somebody wrote in a transaction; a `Marker` decides about it.

    In the log it is in a transactional batch of that producer. Either all records of a step are of one
    producer's transaction, or none is.
    """

    producer_id: int
    producer_epoch: int
    record: object


TimerKey = tuple[str, ...]
"""What a timer is for, then whom it concerns: `("session", group_id, member_id)`."""


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


class Reply(NamedTuple):
    """Answer the request `token`, which may have been parked long ago.

    A response that is a `KafkaError` is raised where the request waits.
    """

    token: int
    response: object


class Step(NamedTuple):
    """The outcome of one event: write the records, change the state, and once committed reply and send."""

    records: tuple[object, ...] = ()
    changes: tuple[object, ...] = ()
    replies: tuple[Reply, ...] = ()
    timers: tuple[Timer, ...] = ()
    sends: tuple[object, ...] = ()
    """What others may hear of only once the records are committed: the runtime's owner passes it on."""


NOTHING = Step()
