"""Calls to a coordinator: most are answered at once, some when a rebalance is done.

A handler that is answered at once returns its response as it is, which costs no task; `then` makes the
two ways look alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from ottla.coordinator.effects import Step
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.groups import GroupCoordinator
from ottla.protocol.errors import InvalidGroupId, KafkaError

P = ParamSpec("P")
R = TypeVar("R")


def check_group_id(group_id: str) -> None:
    """Refuse the empty group id, where there cannot be a group without a name."""
    if not group_id:
        raise InvalidGroupId("the group id is empty")


def outcome(
    groups: GroupCoordinator,
    group_id: str,
    event: Callable[Concatenate[GroupMachine, int, int, P], Step],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Any:
    """Return the reply to an event, or the KafkaError that it failed with; or a future for either."""
    return outcome_of(partial(groups.call, group_id, event, *args, **kwargs))


def outcome_of(call: Callable[[], Any]) -> Any:
    """Return what `call` returns, or the KafkaError that it raises; or an awaitable for either."""
    try:
        reply = call()
    except KafkaError as error:
        return error
    return _settle(reply) if isinstance(reply, Awaitable) else reply


def then(reply: Any, respond: Callable[[Any], R]) -> R | Awaitable[R]:
    """Return `respond(reply)`: at once, or when the reply is there."""
    if isinstance(reply, Awaitable):
        return _respond_later(reply, respond)
    return respond(reply)


async def now(reply: Any) -> Any:
    """Wait for a reply, if there is anything to wait for."""
    return await reply if isinstance(reply, Awaitable) else reply


async def _settle(reply: Awaitable[Any]) -> Any:
    try:
        return await reply
    except KafkaError as error:
        return error


async def _respond_later(reply: Awaitable[Any], respond: Callable[[Any], R]) -> R:
    return respond(await reply)
