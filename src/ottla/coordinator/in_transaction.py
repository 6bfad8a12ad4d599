"""A machine's records that count only once a transaction commits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InTransaction:
    """A record that somebody wrote in a transaction; a `Marker` decides about it.

    In the log it is in a transactional batch of that producer. Either all records of a step are of one
    producer's transaction, or none is.
    """

    producer_id: int
    producer_epoch: int
    record: object
