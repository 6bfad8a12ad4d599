"""What the handlers of transactions have in common: old clients' error codes, and two-phase commit."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.common.config.transaction_keys import ANY_PRINCIPAL
from ottla.protocol.errors import (
    InvalidRequest,
    KafkaError,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)
from ottla.security.acls import Operation, ResourceType


def check_transactional_id(transactional_id: str) -> None:
    """Refuse the empty transactional id."""
    if not transactional_id:
        raise InvalidRequest("the transactional id is empty")


def check_two_phase_commit(transactional_id: str, ctx: RequestContext) -> None:
    """Refuse a producer that may not take part in two-phase commits."""
    config = ctx.services.config
    if not config.transaction_two_phase_commit_enable:
        raise TransactionalIdAuthorizationFailed(
            f"{transactional_id}: two-phase commit is switched off (transaction.two.phase.commit.enable)"
        )
    allowed = config.ottla_two_phase_commit_principals
    if ANY_PRINCIPAL not in allowed and ctx.principal not in allowed:
        raise TransactionalIdAuthorizationFailed(
            f"{transactional_id}: {ctx.principal} may not use two-phase commit "
            f"(ottla.two.phase.commit.principals)"
        )
    require(ctx, ResourceType.TRANSACTIONAL_ID, transactional_id, Operation.TWO_PHASE_COMMIT)


def code_of_fenced(error: KafkaError, ctx: RequestContext, first_with_fenced: int) -> ErrorCode:
    """Return the code of an error; old clients know a fenced producer by an older code."""
    if isinstance(error, ProducerFenced) and ctx.version < first_with_fenced:
        return ErrorCode.invalid_producer_epoch
    return error.code
