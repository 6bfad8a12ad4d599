"""Envelope: serve a client's request that another broker forwarded to this controller.

v0 is the only version. It wraps the whole request, header included, and the whole response, and names the
client: its principal and its address, by which the request inside is authorized. A broker that is
not the controller answers NOT_CONTROLLER: a forwarded request is never forwarded again.
"""

from __future__ import annotations

from ipaddress import ip_address

from kio.schema.envelope.v0 import EnvelopeRequest, EnvelopeResponse
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.protocol.errors import ClusterAuthorizationFailed, InvalidRequest, NotController
from ottla.protocol.principal_data import decode_principal
from ottla.security.acls import ResourceType
from ottla.security.principal import ANONYMOUS
from ottla.security.sasl import SaslSession


class ForwardedClient:
    """The client of a forwarded request, as handlers see it."""

    def __init__(self, address: bytes, principal: bytes | None, ctx: RequestContext) -> None:
        try:
            self.host = str(ip_address(address))
        except ValueError:
            self.host = ctx.connection.host
        self.peer = f"{self.host} via {ctx.connection.peer}"
        self.listener_name = ctx.connection.listener_name
        if principal is None and ctx.services.authorizer is None:  # from a broker of an older release
            self.principal, self.is_token_authenticated = ANONYMOUS, False
        else:
            self.principal, self.is_token_authenticated = decode_principal(principal)
        self.sasl: SaslSession | None = None
        self.software = ""
        self.has_fetched = self.has_queued_request = False

    def close(self, reason: str) -> None:
        """Do nothing: the connection between the brokers stays open."""

    def hold(self) -> None:
        """Do nothing: a forwarded request does not block the connection between the brokers."""

    def mute(self, duration_ms: int) -> None:
        """Do nothing, as in `hold`: the forwarding broker throttles its client by the answer."""

    def release(self) -> None:
        """Do nothing, as in `hold`."""


async def envelope(request: EnvelopeRequest, ctx: RequestContext) -> EnvelopeResponse:
    """Serve the wrapped request, from the brokers' listener only: its principal is not verified again."""
    require(ctx, ResourceType.CLUSTER)
    if ctx.connection.listener_name != ctx.services.config.inter_broker_listener.name:
        raise ClusterAuthorizationFailed("requests are forwarded over the listener of brokers only")
    if not ctx.services.controller.is_active:
        raise NotController(f"broker {ctx.services.node_id} is not the controller")
    handle = ctx.services.handle_forwarded
    if handle is None:
        raise InvalidRequest("this broker does not accept forwarded requests")
    client = ForwardedClient(request.client_host_address, request.request_principal, ctx)
    answer = await handle(client, request.request_data)
    return EnvelopeResponse(response_data=answer, error_code=ErrorCode.none)
