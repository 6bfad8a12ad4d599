"""Connect, run one command, and turn errors into messages."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

import click
from kio.schema.errors import ErrorCode

from ottla.cli.support import not_authorized
from ottla.cli.support.options import BOOTSTRAP_VARIABLE, client_settings
from ottla.cli.support.problem_kinds import (
    ADVERTISED,
    CONNECTION_LOST,
    DISK_FULL,
    LOGIN,
    NO_BROKER,
    NOT_KAFKA,
    TIMED_OUT,
    TLS,
    TOO_FEW_REPLICAS,
    TOO_LARGE,
    TOPIC_EXISTS,
    UNKNOWN_TOPIC,
    Kind,
)
from ottla.cli.support.problems import Problem
from ottla.cli.support.profiles import BOOTSTRAP_KEY
from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    NoLeader,
    NotKafka,
    TimedOut,
    TlsFailed,
)
from ottla.common.config.declaration import ConfigError
from ottla.common.config.options import Options
from ottla.common.near_names import did_you_mean
from ottla.protocol.errors import KafkaError, KafkaStorageError, UnknownTopicOrPartition
from ottla.wire.address import Address, parse_addresses

Result = TypeVar("Result")
AnyOptions = TypeVar("AnyOptions", bound=ClientOptions)

TIMEOUT_MS = 30_000
HINTS = {
    ErrorCode.topic_already_exists: "see: ottla topic describe {topic}",
    ErrorCode.invalid_topic_exception: "a name has 1 to 249 letters, digits, dots, dashes or underscores",
    ErrorCode.message_too_large: "allow larger ones: ottla topic alter {topic} --set max.message.bytes=N",
    ErrorCode.topic_deletion_disabled: "the broker must be started with --set delete.topic.enable=true",
    ErrorCode.not_enough_replicas: "see the in-sync replicas: ottla topic describe {topic}",
    ErrorCode.unknown_topic_id: "it was deleted while it was being read: ottla topic list",
    ErrorCode.security_disabled: "set one on every broker: authorizer.class.name, see docs/security-acls.md",
    ErrorCode.inconsistent_topic_id: "it was deleted and created again while it was being read",
}


KINDS: dict[ErrorCode, Kind] = {
    ErrorCode.topic_already_exists: TOPIC_EXISTS,
    ErrorCode.message_too_large: TOO_LARGE,
    ErrorCode.record_list_too_large: TOO_LARGE,
    ErrorCode.not_enough_replicas: TOO_FEW_REPLICAS,
    ErrorCode.not_enough_replicas_after_append: TOO_FEW_REPLICAS,
    ErrorCode.unknown_topic_or_partition: UNKNOWN_TOPIC,
    ErrorCode.sasl_authentication_failed: LOGIN,
    ErrorCode.request_timed_out: TIMED_OUT,
    ErrorCode.kafka_storage_error: DISK_FULL,
}
CLIENT_KINDS: dict[type[ClientError], Kind] = {
    NotKafka: NOT_KAFKA,
    ConnectionLost: CONNECTION_LOST,
    TlsFailed: TLS,
    AuthenticationFailed: LOGIN,
    NoLeader: TIMED_OUT,
    TimedOut: TIMED_OUT,
}


def options_of(
    bootstrap: str, *, patience_ms: int = TIMEOUT_MS, more: Mapping[str, str] | None = None
) -> ClientOptions:
    """Return the client options of this command, or of `more`; raise UsageError if they are invalid."""
    try:
        parse_addresses(bootstrap)
    except ValueError as error:
        raise click.UsageError(f"{error} (in --bootstrap-server or {BOOTSTRAP_VARIABLE})") from None
    return settings_for(
        ClientOptions,
        more,
        bootstrap_servers=bootstrap,
        client_id="ottla-cli",
        default_api_timeout_ms=patience_ms,
        socket_connection_setup_timeout_ms=min(patience_ms, 10_000),
    )


def settings_for(
    kind: type[AnyOptions], settings: Mapping[str, str] | None = None, **defaults: object
) -> AnyOptions:
    """Return those settings of this command (`-X`, the profile) that `kind` has, over some defaults."""
    fitting: dict[str, object] = {}
    for key, value in (client_settings() if settings is None else settings).items():
        if key == BOOTSTRAP_KEY:
            continue
        if _knows(kind, key):
            fitting[key] = value
        elif not _is_of_other_client(key):
            fitting[key] = value  # no client has it: let it be rejected, with a similar name
    given = {key.replace(".", "_") for key in fitting}
    rest = {key: value for key, value in defaults.items() if key not in given}
    try:
        return kind.of(**rest, **fitting)
    except ConfigError as error:
        raise click.UsageError(
            f"{_as_typed(str(error), fitting)} (in -X, the profile or --command-config)"
        ) from None


def _as_typed(text: str, given: Iterable[str]) -> str:
    """Return an error about an option with the option as it was typed, with dots or not."""
    name, colon, rest = text.partition(":")
    return next((key for key in given if key.replace(".", "_") == name), name) + colon + rest


def connection_settings() -> dict[str, str]:
    """Return those settings of this command that every client has, for clients in other processes."""
    settings_for(ClientOptions)  # rejects invalid ones
    settings = client_settings()
    return {key: settings[key] for key in settings if key != BOOTSTRAP_KEY and _knows(ClientOptions, key)}


def _is_of_other_client(key: str) -> bool:
    """Return whether it is an option of a producer or a consumer, which this command may not have."""
    from ottla.client.consumer import ConsumerOptions
    from ottla.client.producer import ProducerOptions

    return _knows(ProducerOptions, key) or _knows(ConsumerOptions, key)


def _knows(kind: type[Options], key: str) -> bool:
    name = key.replace(".", "_")
    declared = kind.declared()
    return name in declared or name in kind.REFUSED or any(name in each.aliases for each in declared.values())


def run(
    bootstrap: str, command: Callable[[Cluster], Awaitable[Result]], *, topic: str | None = None
) -> Result:
    """Run `command` with a connected cluster; raise Problem for whatever it fails with.

    `topic` is the topic of the command, for hints.
    """
    options = options_of(bootstrap)

    async def session() -> Result:
        async with Cluster(options=options) as cluster:
            try:
                return await command(cluster)
            except UnknownTopicOrPartition as error:
                raise await _unknown_topic(cluster, topic or str(error), error) from None

    try:
        return asyncio.run(session())
    except ConfigError as error:
        raise click.UsageError(f"{error} (in -X, the profile or --command-config)") from None
    except ClientError as error:
        raise no_response(error) from None
    except KafkaError as error:
        raise error_response(error, topic) from None


def run_service(service: Callable[[], Awaitable[int]]) -> int:
    """Run a service until it ends; raise Problem for a cluster that it cannot reach or may not use."""
    import uvloop

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_awaited(service))
    except ClientError as error:
        raise no_response(error) from None
    except KafkaError as error:
        raise error_response(error) from None


async def _awaited(service: Callable[[], Awaitable[int]]) -> int:
    return await service()


def error_response(error: KafkaError, topic: str | None = None) -> Problem:
    """Return the message for an error code of a broker."""
    if error.code in not_authorized.CODES:
        return not_authorized.not_allowed(error, topic)
    said = str(error)
    what = said if said and said != topic else _in_words(error)
    if what == said and len(said.split()) == 1:  # only the name of a group or a partition
        what = f"{said}: {_in_words(error)}"
    if topic is not None and topic not in what:
        what = f"{topic}: {what}"
    hint = HINTS.get(error.code)
    hints = [hint.format(topic=topic or "TOPIC")] if hint else []
    return Problem(what, *hints, kind=KINDS.get(error.code))


async def _unknown_topic(cluster: Cluster, topic: str, error: KafkaError) -> Problem:
    """Return the message for an unknown topic, with similar names."""
    known = sorted(await cluster.refresh(None))
    if topic in known:
        return error_response(error, topic)
    hints = did_you_mean(topic, known)
    hints.append("list them:  ottla topic list" if known else "there are no topics yet")
    hints.append(f"create it:  ottla topic create {topic}")
    return Problem(f"there is no topic {topic!r}", *hints, kind=UNKNOWN_TOPIC)


def no_response(error: ClientError) -> Problem:
    """Return the message for a missing or invalid response."""
    cause = error.__cause__ if isinstance(error, TimedOut) else None
    for each in (error, cause):
        if isinstance(each, BrokerUnreachable):
            return _unreachable(each)
    if isinstance(cause, KafkaStorageError):
        return Problem(str(error), "see the free space of the data directory:  df -h DIR", kind=DISK_FULL)
    hints = {
        NotKafka: "is that the port of a Kafka listener? Ottla's is 9092 by default",
        ConnectionLost: "see the broker's log, or try again",
        TlsFailed: "check each step: ottla doctor -b HOST:PORT -X security.protocol=SSL ...",
        AuthenticationFailed: "check -X sasl.mechanism, sasl.username and sasl.password, or the profile",
        NoLeader: "see missing brokers and leaders: ottla cluster health",
    }
    hint = next((text for kind, text in hints.items() if isinstance(error, kind)), None)
    found = next((each for kind, each in CLIENT_KINDS.items() if isinstance(error, kind)), None)
    return Problem(str(error), *([hint] if hint else []), kind=found)


def _unreachable(error: BrokerUnreachable) -> Problem:
    where = ", ".join(map(str, error.addresses))
    if error.advertised_by is not None:
        return Problem(
            f"{error.advertised_by} advertises {where}, which cannot be reached ({error.reason})",
            "it must advertise an address that this machine can reach:",
            "  ottla serve --advertise HOST:PORT",
            "if it is down, start it again; see what is missing:  ottla cluster health",
            kind=ADVERTISED,
        )
    if error.node_id is not None:
        return Problem(
            f"broker {error.node_id} at {where} does not answer: {error.reason}",
            "see what is missing:  ottla cluster health",
            "if it was the controller, another broker is elected within seconds: try again",
            kind=NO_BROKER,
        )
    hints = [f"use another one with -b HOST:PORT or {BOOTSTRAP_VARIABLE}"]
    if any(_is_local(address) for address in error.addresses):
        hints.insert(0, "start one with: ottla serve")
    return Problem(f"no broker at {where}: {error.reason}", *hints, kind=NO_BROKER)


def _is_local(address: Address) -> bool:
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return address.host == "localhost"


def _in_words(error: KafkaError) -> str:
    """Return the meaning of an error, from its class, as one sentence without a full stop."""
    sentence = (type(error).__doc__ or "").strip().splitlines()[0].rstrip(".")
    name = error.code.name.upper()
    return f"{sentence[0].lower()}{sentence[1:]}" + ("" if name in sentence.upper() else f" ({name})")
