"""Forward requests that only the controller can serve to it, in an Envelope (KIP-590).

A client may send them to any broker. The controller serves them itself. While there is no controller, or it
is being replaced, the request waits here. The Envelope carries the client's principal and address, by which
the controller authorizes it. When the controller has answered, this broker reads the metadata
log before the client gets the response, so that the client finds what it has just created.
"""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import TYPE_CHECKING

from ottla.api.support.context import RequestContext
from ottla.metadata.image import ClusterImage
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import (
    ERRORS,
    BrokerNotAvailable,
    KafkaError,
    NetworkException,
    NotController,
    UnknownServerError,
)
from ottla.protocol.frames import SIZE

if TYPE_CHECKING:
    from kio.schema.envelope.v0 import EnvelopeResponse

FORWARDED = frozenset(
    {
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.CREATE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_ACLS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ELECT_LEADERS,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.RESTORE_METADATA,
        ApiKey.UNREGISTER_BROKER,
    }
)
"""The APIs that only the controller serves."""

CHANNEL = "forward"
TIMEOUT_MS = 20_000
"""How long a request waits for a controller to answer."""
RETRY_S = 0.1


def controller_id_for_clients(image: ClusterImage, ctx: RequestContext) -> int:
    """Return the controller id for clients: the controller's if they can reach it, otherwise this
    broker's.
    """
    controller = image.brokers.get(image.controller_id)
    if controller is None or controller.fenced or controller.endpoint(ctx.connection.listener_name) is None:
        return ctx.services.node_id
    return controller.node_id


async def forward(frame: bytes, ctx: RequestContext) -> bytes:
    """Return the controller's response frame; raise a KafkaError if no controller answers in time."""
    services = ctx.services
    deadline_ms = services.clock.mono_ms() + TIMEOUT_MS
    while True:
        try:
            if services.controller.is_active and services.handle_forwarded is not None:
                answer = await services.handle_forwarded(ctx.connection, frame)
            else:
                answer = await _call_controller(frame, ctx, deadline_ms)
            return SIZE.pack(len(answer)) + answer
        except (NotController, BrokerNotAvailable, NetworkException):
            if services.clock.mono_ms() >= deadline_ms:
                raise
        await asyncio.sleep(RETRY_S)


async def _call_controller(frame: bytes, ctx: RequestContext, deadline_ms: int) -> bytes:
    # Imported here: a single broker never needs it.
    from kio.schema.envelope.v0 import EnvelopeRequest

    from ottla.protocol.principal_data import encode_principal

    services = ctx.services
    controller_id = services.cluster.image.controller_id
    if services.peers is None or controller_id in (services.node_id, -1):
        raise NotController("there is no active controller")
    request = EnvelopeRequest(
        request_data=frame,
        request_principal=encode_principal(
            ctx.principal, is_token_authenticated=ctx.connection.is_token_authenticated
        ),
        client_host_address=_packed(ctx.connection.host),
    )
    timeout_ms = max(1, deadline_ms - services.clock.mono_ms())
    response: EnvelopeResponse = await services.peers.call(
        controller_id, ApiKey.ENVELOPE, 0, request, timeout_ms=timeout_ms, channel=CHANNEL
    )
    if response.response_data is None:
        error = ERRORS.get(response.error_code, UnknownServerError)
        raise error(f"the controller, broker {controller_id}, rejected the forwarded request")
    try:
        await services.controller.catch_up()
    except KafkaError:
        pass  # the change is made; it becomes visible here a little later
    return response.response_data


def _packed(host: str) -> bytes:
    try:
        return ip_address(host).packed
    except ValueError:
        return b""
