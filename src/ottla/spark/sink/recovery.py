"""End the transactions of queries that will not run again: `ottla txn spark`.

A query that is restarted ends them by itself. Until then they block read_committed consumers. Decided
transactions are committed, the others aborted, as the query would have done.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.admin.transactions import Transactions, prefix_pattern
from ottla.client.cluster import Cluster
from ottla.client.producer.options import ProducerOptions
from ottla.common.clock import SystemClock
from ottla.common.ids import new_uuid
from ottla.spark.sink.decision_log import DecisionLog
from ottla.spark.sink.decisions import MAIN, PREFIX, Prepared, SinkKey
from ottla.spark.sink.ending import OPEN_STATES, end_transactions


@dataclass(frozen=True)
class OpenTransaction:
    """An open transaction."""

    transactional_id: str
    key: SinkKey
    decided: Prepared | None
    """Its transaction, if its batch is decided: then it must be committed."""
    batch_id: int | None = None


class Recovery:
    """Finds the open transactions of Spark's tasks, and ends them."""

    def __init__(self, cluster: Cluster, options: ProducerOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._transactions = Transactions(cluster)
        self._decisions = DecisionLog(cluster, options, SystemClock())

    async def find(self, query_id: str | None = None) -> list[OpenTransaction]:
        """Return the open transactions, of one query or of all."""
        prefix = PREFIX if query_id is None else f"{PREFIX}{query_id}/"
        listed = await self._transactions.list(OPEN_STATES, pattern=prefix_pattern(prefix))
        found = []
        for each in listed:
            key = key_of(each.transactional_id)
            if key is not None:
                found.append(await self._judge(each.transactional_id, key))
        return found

    async def end(self, left: OpenTransaction) -> None:
        """Commit it if it is decided, else abort it."""
        if left.decided is None:
            # Fence the query: it must not decide after we have aborted.
            await self._decisions.take(left.key, f"recovery-{new_uuid().hex}")
            left = await self._judge(left.transactional_id, left.key)
        if left.decided is not None:
            await end_transactions(self._cluster, [left.decided], self._options, commit=True, batch_id=-1)
        else:
            await self._transactions.abort(left.transactional_id)

    async def _judge(self, transactional_id: str, key: SinkKey) -> OpenTransaction:
        decision = (await self._decisions.current(key)).decision
        if decision is None:
            return OpenTransaction(transactional_id, key, None)
        described = await self._transactions.describe(transactional_id)
        held = Prepared(transactional_id, described.producer_id, described.producer_epoch)
        if held in decision.transactions:
            return OpenTransaction(transactional_id, key, held, decision.batch_id)
        return OpenTransaction(transactional_id, key, None)


async def decided_batches(cluster: Cluster, options: ProducerOptions, query_id: str) -> dict[str, int]:
    """Return the last decided batch of each sink of a query."""
    found = await DecisionLog(cluster, options, SystemClock()).of_query(query_id)
    return {key.sink: each.decision.batch_id for key, each in found.items() if each.decision is not None}


def key_of(transactional_id: str) -> SinkKey | None:
    """Return the sink that a transactional id belongs to; None if it is not one of Spark's."""
    parts = transactional_id.removeprefix(PREFIX).split("/")
    if not transactional_id.startswith(PREFIX) or not parts[-1].isdigit() or not 2 <= len(parts) <= 3:
        return None
    return SinkKey(parts[0], parts[1] if len(parts) == 3 else MAIN)
