"""ListTransactions: the transactions that this broker coordinates.

v1 filters by how long a transaction has been running, v2 by a regular expression over the transactional
id, whose cost is bounded (coordinator/group/regex.py).

Besides Kafka's states, `Prepared` can be asked for: the ongoing two-phase transactions that are prepared
(PrepareTransaction). They are listed as Ongoing, which is what Kafka's clients know.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2 import ListTransactionsRequest, ListTransactionsResponse
from kio.schema.list_transactions.v2.response import TransactionState

from ottla.api.support.authorization import may
from ottla.api.support.context import RequestContext
from ottla.coordinator.group.regex import matching
from ottla.coordinator.transaction.machine import PREPARED
from ottla.coordinator.transaction.requests import ListFilter
from ottla.coordinator.transaction.transaction import State
from ottla.protocol.types import NO_THROTTLE, ProducerId, TransactionalId
from ottla.security.acls import ResourceType

STATES = frozenset({PREPARED, *(state.title for state in State)})


async def list_transactions(
    request: ListTransactionsRequest, ctx: RequestContext
) -> ListTransactionsResponse:
    """List the transactions that pass all filters."""
    unknown = tuple(each for each in request.state_filters if each not in STATES)
    # Nothing is in a state that does not exist: a filter of unknown states must not let all pass.
    wanted = ListFilter(
        frozenset(request.state_filters), frozenset(request.producer_id_filters), request.duration_filter
    )
    listed = await ctx.services.transactions.list_transactions(wanted)
    pattern = request.transactional_id_pattern
    if pattern:
        names = matching(pattern, (each.transactional_id for each in listed))
        listed = [each for each in listed if each.transactional_id in names]
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        unknown_state_filters=unknown,
        transaction_states=tuple(
            TransactionState(
                transactional_id=TransactionalId(each.transactional_id),
                producer_id=ProducerId(each.producer_id),
                transaction_state=each.state,
            )
            for each in listed
            if may(ctx, ResourceType.TRANSACTIONAL_ID, each.transactional_id)
        ),
    )
