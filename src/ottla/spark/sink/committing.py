"""What the driver does with a batch whose tasks are done: decide it, end its transactions; or give it up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.client.cluster import Cluster
from ottla.spark.cluster_session import link_to
from ottla.spark.sink import crash_points
from ottla.spark.sink.decision_log import DecisionLog, decision_log
from ottla.spark.sink.decisions import Decision, Register, SinkKey, sort_out
from ottla.spark.sink.ending import check_all_there, end_all, tidy
from ottla.spark.sink.writing import SinkOptions, Written

MAX_RUNS = 1_000
MAX_ROUNDS, QUIET_ROUNDS, ROUND_S = 10, 2, 0.3

_tidied: dict[tuple[SinkKey, str], None] = {}
"""The runs whose leftovers of earlier runs have been looked for, oldest first."""


def commit_batch(messages: Sequence[Written | None], options: SinkOptions) -> None:
    """Make what the tasks have prepared visible: decide, then end every transaction."""
    written = [each for each in messages if each is not None and each.key is not None]
    if not written:
        return
    link = link_to(options.producer, is_patient=True)
    link.run(_commit(link.cluster, decision_log(link, options.producer), written, options))


def abort_batch(messages: Sequence[Written | None], options: SinkOptions, key: SinkKey | None = None) -> None:
    """Give up what the tasks have prepared, unless the batch is decided; `key` if no message says it."""
    written = [each for each in messages if each is not None and each.key is not None]
    if not written and key is None:
        return  # the next run of the query finds what is left
    link = link_to(options.producer, is_patient=True)
    link.run(_abort(link.cluster, decision_log(link, options.producer), written, options, key))


async def _commit(
    cluster: Cluster, decisions: DecisionLog, written: Sequence[Written], options: SinkOptions
) -> None:
    one = written[0]
    key, batch_id, run_id = one.key, one.batch_id, one.run_id
    assert key is not None
    prepared = tuple(each.transaction for each in written if each.transaction is not None)
    is_first = (key, run_id) not in _tidied
    if any(each.is_decided for each in written):
        decision = (await decisions.owned(key, run_id)).decision
        undecided = [each for each in prepared if decision and each not in decision.transactions]
        await end_all(cluster, undecided, options.producer, commit=False, batch_id=batch_id)
    elif prepared:
        decision = Decision(batch_id, run_id, one.writer_id, prepared)
        crash_points.reached(crash_points.BEFORE_DECISION, batch_id, key.query_id)
        await decisions.decide(key, decision, lambda: check_all_there(cluster, prepared))
        crash_points.reached(crash_points.AFTER_DECISION, batch_id, key.query_id)
    else:
        decision = None
    if decision is not None:
        await end_all(cluster, decision.transactions, options.producer, commit=True, batch_id=batch_id)
        crash_points.reached(crash_points.AFTER_END, batch_id, key.query_id)
    if is_first:
        await tidy(cluster, key, decision or (await decisions.owned(key, run_id)).decision)
        _remember(key, run_id)


async def _abort(
    cluster: Cluster,
    decisions: DecisionLog,
    written: Sequence[Written],
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
            # A decision of ours may still be on its way: from here on it is stored, or never will be.
            register = await decisions.take(key, one.run_id)
        decision = register.decision
        await _give_up(cluster, register, written, options)
        if not is_ours:
            return  # the run that has taken over tidies up; what is open is perhaps its own
    assert key is not None
    await _tidy_until_quiet(cluster, key, decision)


async def _give_up(
    cluster: Cluster, register: Register, written: Sequence[Written], options: SinkOptions
) -> None:
    batch_id = written[0].batch_id
    prepared = [each.transaction for each in written if each.transaction is not None]
    decided, undecided = sort_out(register, batch_id, prepared)
    await end_all(cluster, decided, options.producer, commit=True, batch_id=batch_id)
    await end_all(cluster, undecided, options.producer, commit=False, batch_id=batch_id)


async def _tidy_until_quiet(cluster: Cluster, key: SinkKey, decision: Decision | None) -> None:
    """Abort what tasks whose message never came have prepared, or still do until Spark has killed them."""
    quiet_rounds = 0
    for _ in range(MAX_ROUNDS):
        quiet_rounds = 0 if await tidy(cluster, key, decision) else quiet_rounds + 1
        if quiet_rounds == QUIET_ROUNDS:
            return
        await asyncio.sleep(ROUND_S)


def _remember(key: SinkKey, run_id: str) -> None:
    _tidied[key, run_id] = None
    while len(_tidied) > MAX_RUNS:
        del _tidied[next(iter(_tidied))]
