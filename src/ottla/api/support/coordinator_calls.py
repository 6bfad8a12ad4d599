"""Calls to a coordinator, whose reply is there at once or comes later.

On one replica nearly every reply is there at once: then a handler returns its response as it is, which costs
no task. Replies that wait for a commit, or for other members, are futures. These functions treat both alike;
the `try_` ones return a KafkaError instead of raising it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from ottla.coordinator.effects import Step
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.groups import GroupCoordinator
from ottla.protocol.errors import InvalidGroupId, KafkaError

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def check_group_id(group_id: str) -> None:
    """Refuse the empty group id, where there cannot be a group without a name."""
    if not group_id:
        raise InvalidGroupId("the group id is empty")


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
