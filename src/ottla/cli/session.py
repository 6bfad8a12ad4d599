"""Connect, run one command, and turn what goes wrong into words."""

from __future__ import annotations

import asyncio
import difflib
import ipaddress
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
from kio.schema.errors import ErrorCode

from ottla.cli.options import BOOTSTRAP_VARIABLE
from ottla.cli.problems import Problem
from ottla.client.address import Address, parse_addresses
from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerUnreachable, ClientError, ConnectionLost, NotKafka
from ottla.protocol.errors import KafkaError, UnknownTopicOrPartition

Result = TypeVar("Result")

HINTS = {
    ErrorCode.topic_already_exists: "look at it: ottla topic describe {topic}",
    ErrorCode.invalid_topic_exception: "a name has 1 to 249 letters, digits, dots, dashes or underscores",
    ErrorCode.message_too_large: "allow larger ones: ottla topic alter {topic} --set max.message.bytes=N",
    ErrorCode.topic_deletion_disabled: "the broker must be started with --set delete.topic.enable=true",
    ErrorCode.not_enough_replicas: "see which replicas are in sync: ottla topic describe {topic}",
    ErrorCode.unknown_topic_id: "it was deleted while it was being read: ottla topic list",
    ErrorCode.inconsistent_topic_id: "it was deleted and created again while it was being read",
}


def run(
    bootstrap: str, command: Callable[[Cluster], Awaitable[Result]], *, topic: str | None = None
) -> Result:
    """Run `command` with a connected cluster; raise Problem for whatever it fails with.

    `topic` is the one that the command is about, for hints.
    """
    try:
        addresses = parse_addresses(bootstrap)
    except ValueError as error:
        raise click.UsageError(f"{error} (in --bootstrap-server or {BOOTSTRAP_VARIABLE})") from None

    async def session() -> Result:
        async with Cluster(addresses, client_id="ottla-cli") as cluster:
            try:
                return await command(cluster)
            except UnknownTopicOrPartition as error:
                raise await _unknown_topic(cluster, topic or str(error), error) from None

    try:
        return asyncio.run(session())
    except ClientError as error:
        raise _unanswered(error) from None
    except KafkaError as error:
        raise refused(error, topic) from None


def refused(error: KafkaError, topic: str | None = None) -> Problem:
    """Return the words for an error code that a broker answered with."""
    said = str(error)
    what = said if said and said != topic else _in_words(error)
    if topic is not None and topic not in what:
        what = f"{topic}: {what}"
    hint = HINTS.get(error.code)
    return Problem(what, *([hint.format(topic=topic or "TOPIC")] if hint else []))


async def _unknown_topic(cluster: Cluster, topic: str, error: KafkaError) -> Problem:
    """Return the words for a topic that is not there, with the names that are near."""
    known = sorted(await cluster.refresh(None))
    if topic in known:
        return refused(error, topic)
    near = difflib.get_close_matches(topic, known, n=3)
    hints = [f"did you mean: {', '.join(near)}?"] if near else []
    hints.append("list them:  ottla topic list" if known else "there are no topics yet")
    hints.append(f"create it:  ottla topic create {topic}")
    return Problem(f"there is no topic {topic!r}", *hints)


def _unanswered(error: ClientError) -> Problem:
    if isinstance(error, BrokerUnreachable):
        return _unreachable(error)
    if isinstance(error, NotKafka):
        return Problem(str(error), "is that the port of a Kafka listener? Ottla's is 9092 by default")
    if isinstance(error, ConnectionLost):
        return Problem(str(error), "look into the broker's log, or try again")
    return Problem(str(error))


def _unreachable(error: BrokerUnreachable) -> Problem:
    where = ", ".join(map(str, error.addresses))
    if error.advertised_by is not None:
        return Problem(
            f"{error.advertised_by} says it is at {where}, but does not answer there ({error.reason})",
            "it must advertise an address that can be reached from here:",
            "  ottla serve --advertise HOST:PORT",
        )
    hints = [f"name another one with -b HOST:PORT or {BOOTSTRAP_VARIABLE}"]
    if any(_is_local(address) for address in error.addresses):
        hints.insert(0, "start one with: ottla serve")
    return Problem(f"no broker at {where}: {error.reason}", *hints)


def _is_local(address: Address) -> bool:
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return address.host == "localhost"


def _in_words(error: KafkaError) -> str:
    """Return what the error means, from its class, as one sentence without a full stop."""
    sentence = (type(error).__doc__ or "").strip().splitlines()[0].rstrip(".")
    return f"{sentence[0].lower()}{sentence[1:]} ({error.code.name})"
