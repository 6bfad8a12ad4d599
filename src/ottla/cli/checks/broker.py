"""Check the way to a cluster: DNS, TCP, TLS, Kafka protocol, SASL, advertised addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import TypeVar

from ottla.cli.checks.findings import FAILED, OK, SKIPPED, WARNING, Finding
from ottla.cli.support.problem_kinds import ADVERTISED, LOGIN, NO_BROKER, NOT_KAFKA, TLS
from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.errors import AuthenticationFailed, BrokerUnreachable, ClientError, TlsFailed
from ottla.protocol.errors import KafkaError
from ottla.wire.address import Address
from ottla.wire.connection import Connection, ConnectionOptions
from ottla.wire.errors import reason_of, tls_reason

T = TypeVar("T")

TIMEOUT_S = 5.0
MAX_BROKERS_CHECKED = 50
EXPIRES_SOON_DAYS = 14


async def check_cluster(options: ClientOptions) -> AsyncIterator[Finding]:
    """Check each bootstrap address step by step as a client does; then each advertised address."""
    reached = False
    for address in options.addresses:
        ok = True
        for check in (_dns, _tcp, _tls, _handshake):
            found = await check(address, options)
            yield found
            ok = found.state in (OK, WARNING, SKIPPED)
            if not ok:
                break
        reached = reached or ok
    if reached:
        async for found in _brokers(options):
            yield found


async def _dns(address: Address, options: ClientOptions) -> Finding:
    loop = asyncio.get_running_loop()
    try:
        found = await _in_time(loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
    except (OSError, TimeoutError) as error:
        what = f"{address.host}: {reason_of(error)}"
        return Finding("DNS", FAILED, what, "check the name, /etc/hosts and /etc/resolv.conf", NO_BROKER)
    numbers = dict.fromkeys(str(each[4][0]) for each in found)
    return Finding("DNS", OK, f"{address.host} is {', '.join(numbers)}")


async def _tcp(address: Address, options: ClientOptions) -> Finding:
    began = time.monotonic()
    try:
        _, writer = await _in_time(asyncio.open_connection(address.host, address.port))
    except (OSError, TimeoutError) as error:
        reason = (
            "no response: is a firewall in between?" if isinstance(error, TimeoutError) else reason_of(error)
        )
        fix = "start a broker there (ottla serve), or name another with -b"
        return Finding("TCP", FAILED, f"{address}: {reason}", fix, NO_BROKER)
    writer.close()
    return Finding("TCP", OK, f"{address} accepts connections, {_ms(began)}")


async def _tls(address: Address, options: ClientOptions) -> Finding:
    if not options.uses_tls:
        return Finding("TLS", SKIPPED, f"security.protocol is {options.security_protocol}: not encrypted")
    context = options.security().tls
    try:
        _, writer = await _in_time(asyncio.open_connection(address.host, address.port, ssl=context))
    except (OSError, TimeoutError) as error:
        reason = tls_reason(error) if isinstance(error, OSError) else None
        fix = "see -X ssl.ca.location, ssl.certificate.location, ssl.key.location"
        return Finding("TLS", FAILED, f"{address}: {reason or reason_of(error)}", fix, TLS)
    tls = writer.get_extra_info("ssl_object")
    writer.close()
    what = f"{tls.version()}, {tls.cipher()[0]}"
    until = (tls.getpeercert() or {}).get("notAfter")
    if until:
        days = (ssl.cert_time_to_seconds(until) - time.time()) / 86_400
        what += f", certificate expires in {days:,.0f} days"
        if days < EXPIRES_SOON_DAYS:
            return Finding("TLS", WARNING, what, "renew it", TLS)
    return Finding("TLS", OK, what)


async def _handshake(address: Address, options: ClientOptions) -> Finding:
    """Send ApiVersions, and authenticate."""
    name = "SASL" if options.uses_sasl else "Kafka"
    began = time.monotonic()
    try:
        connection = await Connection.open(
            address,
            ConnectionOptions("ottla-doctor", int(TIMEOUT_S * 1000), security=options.security()),
        )
    except AuthenticationFailed as error:
        return Finding(
            "SASL", FAILED, str(error), "check sasl.mechanism, sasl.username, sasl.password", LOGIN
        )
    except TlsFailed as error:
        return Finding("TLS", FAILED, str(error), None, TLS)
    except (BrokerUnreachable, KafkaError, ClientError) as error:
        fix = "does the listener need TLS or SASL? -X security.protocol=SASL_SSL ..."
        return Finding(name, FAILED, str(error), fix, NOT_KAFKA)
    apis = len(connection.session.versions)
    connection.close()
    login = f" and accepts {options.sasl_mechanism}" if options.uses_sasl else ""
    return Finding(name, OK, f"{address} speaks the Kafka protocol ({apis} APIs){login}, {_ms(began)}")


async def _brokers(options: ClientOptions) -> AsyncIterator[Finding]:
    """Ask for the brokers, and connect to each advertised address."""
    patient = replace(options, default_api_timeout_ms=int(TIMEOUT_S * 1000))
    try:
        async with Cluster(options=patient) as cluster:
            brokers = dict(list(cluster.brokers.items())[:MAX_BROKERS_CHECKED])
            controller = cluster.controller_id
    except (ClientError, KafkaError) as error:
        yield Finding("metadata", FAILED, str(error), "see the broker's log", NO_BROKER)
        return
    for node_id, broker in brokers.items():
        found = await _tcp(broker.address, options)
        what = f"broker {node_id} advertises {broker.address}"
        if found.state == OK:
            yield Finding("advertised", OK, f"{what}, which is reachable")
            if options.uses_tls and broker.address not in options.addresses:
                yield await _tls(broker.address, options)
        else:
            fix = "make it advertise an address that this machine can reach: --advertise HOST:PORT"
            yield Finding(
                "advertised", FAILED, f"{what}, which cannot be reached: {found.what}", fix, ADVERTISED
            )
    if controller not in brokers:
        yield Finding("controller", WARNING, "there is none now", "see: ottla cluster health")


async def _in_time(work: Awaitable[T]) -> T:
    async with asyncio.timeout(TIMEOUT_S):
        return await work


def _ms(began: float) -> str:
    return f"{(time.monotonic() - began) * 1000:,.0f} ms"
