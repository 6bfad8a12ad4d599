"""Checks a name and a password with the brokers: a person who may connect is logged in.

From then on everything that person does is done with their own connection, so the broker's ACLs hold.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from kio.schema.describe_cluster.v2 import DescribeClusterRequest, DescribeClusterResponse

from ottla.client.errors import AuthenticationFailed, ClientError
from ottla.common.config.declaration import ConfigError
from ottla.console.access.roles import Role, role_from_operations
from ottla.console.clusters.live import LiveCluster
from ottla.console.options import ClusterOptions
from ottla.console.table import UserError
from ottla.http.broker_users import MAX_CREDENTIAL_CHARS
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import i8

log = logging.getLogger(__name__)

DEFAULT_MECHANISM = "SCRAM-SHA-512"
REFUSED = "The broker does not accept this name and password."


async def log_in(options: ClusterOptions, user: str, password: str) -> tuple[LiveCluster, Role]:
    """Return the cluster as a user sees it, and the user's role there; UserError if they may not connect."""
    client = options.client
    if len(user) + len(password) > MAX_CREDENTIAL_CHARS:  # SCRAM would prepare megabytes, on the event loop
        raise UserError(REFUSED, status=401)
    try:
        own = replace(
            client,
            security_protocol=client.security_protocol
            if client.uses_sasl
            else _with_sasl(client.security_protocol),
            sasl_mechanism=client.sasl_mechanism if client.uses_sasl else DEFAULT_MECHANISM,
            sasl_plain_username=user,
            sasl_plain_password=password,
            sasl_oauth_token_provider=None,
        )
    except ConfigError as error:
        raise UserError(f"This cluster has no login by name and password: {error}") from None
    live = LiveCluster(replace(options, client=own))
    try:
        await live.admin.start()
        role = await cluster_role(live)
    except AuthenticationFailed:
        await live.close()
        raise UserError(REFUSED, status=401) from None
    except (KafkaError, ClientError) as error:
        await live.close()
        log.warning("cluster %s did not answer a login: %s", options.name, error)  # not for strangers
        raise UserError(
            "The brokers did not answer.", "Try again; the console's log says why.", 503
        ) from None
    return live, role


async def cluster_role(live: LiveCluster) -> Role:
    """Return the role of the principal of these connections."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=True, endpoint_type=i8(1), include_fenced_brokers=False
    )
    cluster = live.admin.cluster

    async def attempt() -> int:
        connection = await cluster.any_broker()
        response = await connection.request(request, DescribeClusterResponse)
        return int(response.cluster_authorized_operations)

    return role_from_operations(await cluster.retrying(attempt))


def _with_sasl(protocol: str) -> str:
    return "SASL_SSL" if protocol.endswith("SSL") else "SASL_PLAINTEXT"
