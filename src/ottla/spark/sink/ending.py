"""End prepared transactions, and find those that will never be decided."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kio.schema.errors import ErrorCode

from ottla.client.admin.transactions import Transactions, prefix_pattern
from ottla.client.cluster import Cluster
from ottla.client.producer.batch import Identity
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.transaction_calls import TransactionCalls
from ottla.client.producer.transactions import FEATURE, IMPLICIT_FROM
from ottla.protocol.errors import KafkaError, TransactionalIdNotFound
from ottla.spark.errors import TransactionLost
from ottla.spark.sink import crash_points
from ottla.spark.sink.decisions import Decision, Prepared, SinkKey, to_abort

log = logging.getLogger(__name__)

OPEN_STATES = ("Ongoing",)
COMMITTED = ("PrepareCommit", "CompleteCommit")
TAKEN = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.transactional_id_not_found,
    }
)


async def end_transactions(
    cluster: Cluster,
    transactions: Iterable[Prepared],
    options: ProducerOptions,
    *,
    commit: bool,
    batch_id: int,
) -> None:
    """End prepared transactions; those that have ended already are skipped."""
    waiting = list(transactions)
    if waiting:
        await _end(cluster, waiting[0], options, commit)
        query_id = waiting[0].transactional_id.split("/")[1]
        crash_points.reached(crash_points.AFTER_FIRST_END, batch_id, query_id)
    await asyncio.gather(*(_end(cluster, each, options, commit) for each in waiting[1:]))


async def _end(cluster: Cluster, prepared: Prepared, options: ProducerOptions, commit: bool) -> None:
    calls = TransactionCalls(cluster, two_phase(options, prepared.transactional_id))
    identity = Identity(prepared.producer_id, prepared.producer_epoch)
    is_implicit = cluster.features.get(FEATURE, 0) >= IMPLICIT_FROM
    try:
        await calls.end(identity, commit=commit, is_implicit=is_implicit)
    except KafkaError as error:
        if not commit:
            log.warning("cannot abort the transaction of %s: %s", prepared.transactional_id, error)
        elif error.code in TAKEN:
            await _commit_from_another(cluster, calls, prepared, is_implicit, error)
        else:
            raise


async def _commit_from_another(
    cluster: Cluster, calls: TransactionCalls, prepared: Prepared, is_implicit: bool, why: KafkaError
) -> None:
    """Commit a decided transaction whose id a late task has taken: that task leaves the prepared one open."""
    if await _has_been_committed(cluster, prepared.transactional_id):
        return
    taken, left = await calls.init(Identity(), keep_prepared=True)
    if left == Identity(prepared.producer_id, prepared.producer_epoch):
        await calls.end(taken, commit=True, is_implicit=is_implicit)
        return
    raise TransactionLost(
        f"the transaction of {prepared.transactional_id} was ended by another client before it could be "
        f"committed: {why}. If it was aborted manually, its rows are missing; start with a new checkpoint"
    )


async def _has_been_committed(cluster: Cluster, transactional_id: str) -> bool:
    """Return whether the last transaction of an id is committed; an expired one had ended."""
    try:
        return (await Transactions(cluster).describe(transactional_id)).state in COMMITTED
    except TransactionalIdNotFound:
        return True


async def check_all_prepared(cluster: Cluster, prepared: Sequence[Prepared]) -> None:
    """Raise TransactionLost if another client, e.g. a task of an earlier run, has taken an id since."""
    transactions = Transactions(cluster)
    for each in prepared:
        found = await transactions.describe(each.transactional_id)
        if (found.producer_id, found.producer_epoch) != each[1:] or not found.is_prepared:
            raise TransactionLost(
                f"the transaction of {each.transactional_id} is not prepared any more: another attempt or "
                "run has taken it. Nothing of the batch is visible; restart the query"
            )


async def abort_leftovers(cluster: Cluster, key: SinkKey, decision: Decision | None) -> int:
    """Abort the open transactions that will never be decided; return their number."""
    transactions = Transactions(cluster)
    found = await transactions.list(OPEN_STATES, pattern=prefix_pattern(key.prefix))
    left = to_abort(key, [one.transactional_id for one in found], decision)
    for each in left:
        log.warning("%s is a leftover of an earlier run: aborted", each)
        await transactions.abort(each)
    return len(left)


def two_phase(options: ProducerOptions, transactional_id: str) -> ProducerOptions:
    """Return the producer options for prepared transactions."""
    return replace(options, transactional_id=transactional_id, transaction_two_phase_commit_enable=True)
