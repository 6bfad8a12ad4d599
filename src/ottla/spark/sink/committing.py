"""The driver's part of a batch: decide it and commit its transactions, or abort it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.client.cluster import Cluster
from ottla.spark.batch_plans import plan_of
from ottla.spark.cluster_session import cluster_session
from ottla.spark.sink import crash_points
from ottla.spark.sink.decision_log import DecisionLog, decision_log
from ottla.spark.sink.decisions import Decision, Register, SinkKey, check_plan, split_prepared
from ottla.spark.sink.ending import abort_leftovers, check_all_prepared, end_transactions
from ottla.spark.sink.writing import SinkOptions, TaskCommitMessage

MAX_RUNS = 1_000
MAX_ROUNDS, QUIET_ROUNDS, ROUND_S = 10, 2, 0.3

_cleaned_runs: dict[tuple[SinkKey, str], None] = {}
"""The runs that have looked for leftovers of earlier runs, oldest first."""


def commit_batch(messages: Sequence[TaskCommitMessage | None], options: SinkOptions) -> None:
    """Commit the prepared transactions of a batch: store the decision, then end every transaction."""
    written = [each for each in messages if each is not None and each.key is not None]
    if not written:
        return
    session = cluster_session(options.producer, waits_for_brokers=True)
    session.run(_commit(session.cluster, decision_log(session, options.producer), written, options))


def abort_batch(
    messages: Sequence[TaskCommitMessage | None], options: SinkOptions, key: SinkKey | None = None
) -> None:
    """Abort the prepared transactions of a batch, unless it is decided; `key` is for batches without
    messages.
    """
    written = [each for each in messages if each is not None and each.key is not None]
    if not written and key is None:
        return  # the next run of the query ends what is left
    session = cluster_session(options.producer, waits_for_brokers=True)
    session.run(_abort(session.cluster, decision_log(session, options.producer), written, options, key))


async def _commit(
    cluster: Cluster, decisions: DecisionLog, written: Sequence[TaskCommitMessage], options: SinkOptions
) -> None:
    one = written[0]
    key, batch_id, run_id = one.key, one.batch_id, one.run_id
    assert key is not None
    plan = one.plan or (plan_of(options.checkpoint, batch_id) if options.checkpoint is not None else None)
    prepared = tuple(each.transaction for each in written if each.transaction is not None)
    is_first = (key, run_id) not in _cleaned_runs
    if any(each.is_decided for each in written):
        decision = (await decisions.owned(key, run_id)).decision
        undecided = [each for each in prepared if decision and each not in decision.transactions]
        await end_transactions(cluster, undecided, options.producer, commit=False, batch_id=batch_id)
        if decision is not None:
            check_plan(decision, plan)
    elif prepared:
        decision = Decision(batch_id, run_id, one.writer_id, prepared, plan)
        crash_points.reached(crash_points.BEFORE_DECISION, batch_id, key.query_id)
        await decisions.decide(key, decision, lambda: check_all_prepared(cluster, prepared))
        crash_points.reached(crash_points.AFTER_DECISION, batch_id, key.query_id)
    else:
        decision = None
    if decision is not None:
        await end_transactions(
            cluster, decision.transactions, options.producer, commit=True, batch_id=batch_id
        )
        crash_points.reached(crash_points.AFTER_END, batch_id, key.query_id)
    if is_first:
        await abort_leftovers(cluster, key, decision or (await decisions.owned(key, run_id)).decision)
        _remember(key, run_id)


async def _abort(
    cluster: Cluster,
    decisions: DecisionLog,
    written: Sequence[TaskCommitMessage],
    options: SinkOptions,
    key: SinkKey | None,
) -> None:
    decision = None
    if written:
        one = written[0]
        key = one.key
        assert key is not None
        register = await decisions.current(key)
        is_ours = register.owner in (one.run_id, None)
        if is_ours:
            # A decision of ours may be in flight: after taking the register, it is stored or never will be.
            register = await decisions.take(key, one.run_id)
        decision = register.decision
        await _give_up(cluster, register, written, options)
        if not is_ours:
            return  # the run that has taken over cleans up; open transactions may be its own
    assert key is not None
    await _abort_leftovers_until_quiet(cluster, key, decision)


async def _give_up(
    cluster: Cluster, register: Register, written: Sequence[TaskCommitMessage], options: SinkOptions
) -> None:
    batch_id = written[0].batch_id
    prepared = [each.transaction for each in written if each.transaction is not None]
    decided, undecided = split_prepared(register, batch_id, prepared)
    await end_transactions(cluster, decided, options.producer, commit=True, batch_id=batch_id)
    await end_transactions(cluster, undecided, options.producer, commit=False, batch_id=batch_id)


async def _abort_leftovers_until_quiet(cluster: Cluster, key: SinkKey, decision: Decision | None) -> None:
    """Abort transactions of tasks whose message was lost, until Spark has killed all of them."""
    quiet_rounds = 0
    for _ in range(MAX_ROUNDS):
        quiet_rounds = 0 if await abort_leftovers(cluster, key, decision) else quiet_rounds + 1
        if quiet_rounds == QUIET_ROUNDS:
            return
        await asyncio.sleep(ROUND_S)


def _remember(key: SinkKey, run_id: str) -> None:
    _cleaned_runs[key, run_id] = None
    while len(_cleaned_runs) > MAX_RUNS:
        del _cleaned_runs[next(iter(_cleaned_runs))]
