"""One registry process: topic, state, workers and HTTP server, started and stopped together."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ottla.client.client_options import ClientOptions
from ottla.client.cluster import TopicInfo
from ottla.http.app import HttpApp
from ottla.http.limits import HttpLimits
from ottla.http.origins import hosts_without_login
from ottla.http.security import Acls, HttpSecurity, secure
from ottla.http.server import HttpServer
from ottla.http.service import HttpService
from ottla.registry.elected_topic import ElectedTopic
from ottla.registry.election import Election
from ottla.registry.exporters.records import ExporterState
from ottla.registry.exporters.records import decode as read_exporter
from ottla.registry.exporters.runner import ExporterRunner
from ottla.registry.kafka_topic import KafkaTopic, is_conditional
from ottla.registry.keys.records import decode as read_key
from ottla.registry.keys.state import KeyState
from ottla.registry.rest.access import SubjectAccess
from ottla.registry.rest.app import make_app
from ottla.registry.rest.forwarding import Forwarder
from ottla.registry.schema_log import SchemaLog, StateLog, StateT
from ottla.registry.service import Registry
from ottla.registry.state_store import StateStore
from ottla.registry.workers import Workers

log = logging.getLogger(__name__)

EXPORTERS_GROUP = "schema-registry-exporters"
REALM = "schema registry"


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """How a registry process is run."""

    client: ClientOptions
    host: str = "127.0.0.1"
    port: int = 8081
    topic: str = "_schemas"
    keys_topic: str = "_dek_registry_keys"
    exporters_topic: str = "_exporters"
    workers: int = 2
    job_timeout_s: float = 5.0
    store_timeout_s: float = 10.0
    limits: HttpLimits = field(default_factory=HttpLimits)
    tls: ssl.SSLContext | None = None
    peer_tls: ssl.SSLContext | None = None
    """The TLS context of connections to other registry processes; on Apache Kafka only."""
    authentication: tuple[str, ...] = ()
    """The authentication methods: basic, bearer, certificate; empty: no login."""
    user_mechanism: str | None = None
    """The SASL mechanism that passwords are verified with; by default that of our own connections."""
    user_claim: str = "sub"
    """The claim of a token with the user name, as brokers have it in sasl.oauthbearer.sub.claim.name."""
    uses_acls: bool = False
    """Whether requests are authorized by the brokers' ACLs."""
    super_users: tuple[str, ...] = ()
    elected: bool = False
    """Elect one process to write, even if the brokers append conditionally."""
    advertised_url: str | None = None
    """Where other registry processes reach this one; beside Apache Kafka only."""


class RegistryServer(HttpService):
    """A registry over HTTP; use it as `async with RegistryServer(options)`."""

    def __init__(self, options: RegistryOptions) -> None:
        self.options = options
        self.registry: Registry
        self._opened_later: AsyncExitStack
        self._exporter_election: Election | None = None
        super().__init__(HttpServer(options.host, options.port, options.limits, options.tls))

    async def _start(self) -> None:
        """Connect, read all schemas, and listen."""
        options = self.options
        topic = await self._parts.enter_async_context(await self._topic())
        schema_log = await self._parts.enter_async_context(
            SchemaLog(topic, timeout_s=options.store_timeout_s)
        )
        workers = await self._parts.enter_async_context(Workers(options.workers, options.job_timeout_s))
        self.registry = Registry(schema_log, workers)
        await self.registry.settle()
        keys = StateStore(lambda: self._open(topic, options.keys_topic, KeyState, read_key))
        exporters = StateStore(
            lambda: self._open(topic, options.exporters_topic, ExporterState, read_exporter)
        )
        app = make_app(self.registry, lambda: topic.cluster.cluster_id, options.limits, keys, exporters)
        await self._secure(app)
        if isinstance(topic, ElectedTopic):
            app.around = Forwarder(topic.election, options.peer_tls)
        self._opened_later = await self._parts.enter_async_context(AsyncExitStack())
        await self._http.serve(app)
        runner = ExporterRunner(
            self.registry, exporters, lambda: self._stand(topic), lambda: topic.cluster.cluster_id
        )
        await self._parts.enter_async_context(runner)
        self._parts.push_async_callback(self._http.stop)  # before what its requests need

    async def _secure(self, app: HttpApp) -> None:
        """Let users prove who they are, and the brokers' ACLs decide what they may do."""
        options = self.options
        security = HttpSecurity(
            authentication=options.authentication,
            user_mechanism=options.user_mechanism,
            user_claim=options.user_claim,
            uses_acls=options.uses_acls,
            super_users=options.super_users,
        )

        if not options.authentication:
            advertised = urlsplit(options.advertised_url or "").hostname or ""
            app.hosts, app.hosts_hint = hosts_without_login(options.host, [advertised]), ": see --advertise"

        def access(acls: Acls) -> SubjectAccess:
            return SubjectAccess(acls, lambda: self.registry.state)

        await secure(app, security, options.client, access, self._parts, REALM)

    async def _open(
        self,
        schemas: KafkaTopic,
        name: str,
        make_state: Callable[[], StateT],
        read_record: Callable[[bytes | None, bytes | None], Any],
    ) -> StateLog[StateT]:
        """Open another topic of the registry; its changes are taken in the same way as those of schemas."""
        options = self.options
        if isinstance(schemas, ElectedTopic):
            other: KafkaTopic = ElectedTopic(options.client, name, schemas.election.url, schemas.election)
        else:
            other = KafkaTopic(options.client, name)
        topic = await self._opened_later.enter_async_context(other)
        log = StateLog(topic, make_state, read_record, timeout_s=options.store_timeout_s)
        return await self._opened_later.enter_async_context(log)

    async def _stand(self, schemas: KafkaTopic) -> Election | None:
        """Return the election of the process that runs the exporters; None while there are no exporters."""
        if self._exporter_election is not None:
            return self._exporter_election
        found = await schemas.cluster.refresh_some([self.options.exporters_topic])
        if not isinstance(found.get(self.options.exporters_topic), TopicInfo):
            return None
        if isinstance(schemas, ElectedTopic):
            self._exporter_election = schemas.election
        else:
            url = self.options.advertised_url or self._http.url
            election = Election(schemas.cluster, url, EXPORTERS_GROUP)
            self._exporter_election = await self._opened_later.enter_async_context(election)
        return self._exporter_election

    async def _topic(self) -> KafkaTopic:
        """Return the topic in the way in which these brokers take changes."""
        options = self.options
        if not options.elected and await is_conditional(options.client):
            return KafkaTopic(options.client, options.topic)
        log.info("these brokers cannot append conditionally: one registry process is elected to write")
        return ElectedTopic(options.client, options.topic, options.advertised_url or self._http.url)
