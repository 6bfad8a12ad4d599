"""How an HTTP service is secured: TLS, who its users are, and what they may do. One way for all services."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

from ottla.client.client_options import ClientOptions
from ottla.http.app import HttpApp, Request
from ottla.http.authentication import Authenticator
from ottla.http.broker_acls import BrokerAcls
from ottla.http.broker_users import BrokerUsers
from ottla.security.acls import Operation


@dataclass(frozen=True, slots=True)
class HttpSecurity:
    """How an HTTP server is secured."""

    tls: ssl.SSLContext | None = None
    peer_tls: ssl.SSLContext | None = None
    """Trusts what signs this server's certificate, for requests between processes of one service."""
    authentication: tuple[str, ...] = ()
    """How users prove who they are: basic, bearer, certificate; nothing: without a proof."""
    user_mechanism: str | None = None
    """The SASL mechanism that passwords are verified with; by default that of our own connections."""
    user_claim: str = "sub"
    """The claim of a token with the user name, as brokers have it in sasl.oauthbearer.sub.claim.name."""
    uses_acls: bool = False
    """Whether the brokers' ACLs decide who may do what."""
    super_users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files."""

    certificate: str
    """The server's certificate, with the chain up to its authority."""
    key: str | None = None
    """Its key, if it is not in the same file."""
    password: str | None = None
    client_ca: str | None = None
    """Who may sign the certificates of clients; without it, clients show none."""
    requires_client_certificate: bool = False


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of a server; OSError or ssl.SSLError if a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key, files.password)
    if files.client_ca is not None:
        context.load_verify_locations(files.client_ca)
        required = files.requires_client_certificate
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def client_context(ca_file: str | None, files: TlsFiles | None = None) -> ssl.SSLContext:
    """Return the context of a client of such servers; `files` has the certificate that it shows."""
    context = ssl.create_default_context(cafile=ca_file)
    if files is not None:
        context.load_cert_chain(files.certificate, files.key, files.password)
    return context


class Acls(Protocol):
    """What decides."""

    def allows(self, principal: str, host: str, operation: Operation, name: str) -> bool:
        """Return whether a principal may do something with a named resource."""
        ...

    def allows_on_cluster(self, principal: str, host: str, operation: Operation) -> bool:
        """Return whether a principal may do something with the whole service."""
        ...


async def secure(
    app: HttpApp,
    security: HttpSecurity,
    client: ClientOptions,
    access: Callable[[Acls], Callable[[Request], None]],
    parts: AsyncExitStack,
    realm: str,
) -> None:
    """Let users prove who they are, and have the brokers' ACLs decide, by the rules of `access`."""
    if security.authentication:
        users = BrokerUsers(client, security.user_mechanism, name_claim=security.user_claim)
        app.authenticate = Authenticator(security.authentication, users, realm=realm)
    if security.uses_acls:
        app.authorize = access(await parts.enter_async_context(BrokerAcls(client, security.super_users)))


def operation_words(operation: Operation) -> str:
    """Return an operation as Kafka's tools write it: `DescribeConfigs`."""
    return "".join(word.capitalize() for word in operation.name.split("_"))
