"""Calls to a coordinator, whose reply is there at once or comes later; checks before, error codes after them.

On one replica nearly every reply is there at once: then a handler returns its response as it is, which costs
no task. Replies that wait for a commit, or for other members, are futures. These functions treat both alike;
the `try_` ones return a KafkaError instead of raising it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.common.config.transaction_keys import ANY_PRINCIPAL
from ottla.coordinator.effects import Step
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.groups import GroupCoordinator
from ottla.protocol.errors import (
    InvalidGroupId,
    InvalidRequest,
    KafkaError,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)
from ottla.security.acls import Operation, ResourceType

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def check_group_id(group_id: str) -> None:
    """Refuse the empty group id, where there cannot be a group without a name."""
    if not group_id:
        raise InvalidGroupId("the group id is empty")


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


def try_call(
    groups: GroupCoordinator,
    group_id: str,
    event: Callable[Concatenate[GroupMachine, int, int, P], Step[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T | KafkaError | Awaitable[T | KafkaError]:
    """Return the reply to an event on a group, or the KafkaError that it failed with; or a future for it."""
    try:
        reply = groups.call(group_id, event, *args, **kwargs)
    except KafkaError as error:
        return error
    return try_await(reply) if isinstance(reply, asyncio.Future) else reply


async def try_ask(
    groups: GroupCoordinator,
    group_id: str,
    event: Callable[Concatenate[GroupMachine, int, int, P], Step[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T | KafkaError:
    """Wait for the reply to an event on a group; return the KafkaError that it failed with."""
    try:
        reply = groups.call(group_id, event, *args, **kwargs)
        return await reply if isinstance(reply, asyncio.Future) else reply
    except KafkaError as error:
        return error


async def try_await(reply: Awaitable[T]) -> T | KafkaError:
    """Wait for a reply; return the KafkaError that it failed with."""
    try:
        return await reply
    except KafkaError as error:
        return error


async def await_reply(reply: T | Awaitable[T]) -> T:
    """Wait for a reply, if it is not there yet."""
    return await reply if isinstance(reply, Awaitable) else reply


async def respond_later(reply: Awaitable[T], respond: Callable[[T], R]) -> R:
    """Return `respond(reply)` when the reply is there."""
    return respond(await reply)
