"""The transactions that simulated clients tried, and the outcome of each as far as they know.

Every value names its transaction: `12.0.3` is the third of transaction 12 in partition 0. Only one
transaction of a transactional id can be open at a time, so committed ones are in the order of their numbers;
the number is also the offset that a transaction commits for its group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from ottla.common.ids import TopicPartition

SOURCE = TopicPartition("t", 0)
"""The partition whose offset transactions commit, for the group that has the name of the transactional id."""


class TransactionOutcome(Enum):
    """The required outcome of a transaction, as far as its client knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass
class Attempt:
    """One transaction of one client."""

    number: int
    transactional_id: str
    began_s: float
    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    """All that was sent, by partition and in order."""
    has_offset: bool = False
    is_commit_asked: bool = False
    is_commit_confirmed: bool = False
    is_commit_refused: bool = False
    """For certain, so that it can never happen."""
    is_prepared: bool = False

    @property
    def outcome(self) -> TransactionOutcome:
        """Return the expected outcome. A transaction is committed only if its client has requested it."""
        if self.is_commit_confirmed:
            return TransactionOutcome.COMMITTED
        if self.is_commit_asked and not self.is_commit_refused:
            return TransactionOutcome.UNKNOWN
        return TransactionOutcome.ABORTED

    def new_values(self, place: TopicPartition, count: int) -> list[bytes]:
        """Make values that are about to be sent."""
        sent = self.values.setdefault(place, [])
        made = [f"{self.number}.{place.partition}.{len(sent) + at}".encode() for at in range(count)]
        sent += made
        return made


class TransactionHistory:
    """All transactions of a simulation, and the stable offsets that were seen meanwhile."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.attempts: list[Attempt] = []
        self.offsets_seen: dict[str, set[int]] = {}
        """By group: every offset that was returned as stable."""
        self._now = now

    def begin(self, transactional_id: str) -> Attempt:
        """Note a new transaction, before anything of it is sent."""
        attempt = Attempt(len(self.attempts), transactional_id, self._now())
        self.attempts.append(attempt)
        return attempt

    def attempt_of(self, value: bytes) -> Attempt | None:
        """Return the transaction that a value belongs to."""
        number = int(value.split(b".")[0])
        return self.attempts[number] if number < len(self.attempts) else None

    def has_committed_since(self, transactional_id: str, since_s: float) -> bool:
        """Return whether a transaction that began later was committed."""
        return any(
            each.is_commit_confirmed and each.began_s >= since_s and each.transactional_id == transactional_id
            for each in reversed(self.attempts)
        )

    def summary(self) -> str:
        """Return how many transactions became what."""
        counts = Counter(each.outcome.value for each in self.attempts)
        prepared = sum(each.is_prepared for each in self.attempts)
        return ", ".join(
            [*(f"{count} {outcome}" for outcome, count in counts.items()), f"{prepared} prepared"]
        )
