"""Envelope: serve a client's request that another broker forwarded to this controller.

v0 is the only version. It wraps the whole request, header included, and the whole response. A broker that is
not the controller answers NOT_CONTROLLER: a forwarded request is never forwarded again.
"""

from __future__ import annotations

from ipaddress import ip_address

from kio.schema.envelope.v0 import EnvelopeRequest, EnvelopeResponse
from kio.schema.errors import ErrorCode

from ottla.api.support.context import RequestContext
from ottla.protocol.errors import InvalidRequest, NotController


class ForwardedClient:
    """The client of a forwarded request, as handlers see it."""

    def __init__(self, address: bytes, ctx: RequestContext) -> None:
        try:
            self.host = str(ip_address(address))
        except ValueError:
            self.host = ctx.connection.host
        self.peer = f"{self.host} via {ctx.connection.peer}"
        self.listener_name = ctx.connection.listener_name
        self.software = ""
        self.has_fetched = self.has_queued_request = False

    def hold(self) -> None:
        """Do nothing: a forwarded request does not block the connection between the brokers."""

    def release(self) -> None:
        """Do nothing, as in `hold`."""


async def envelope(request: EnvelopeRequest, ctx: RequestContext) -> EnvelopeResponse:
    """Serve the wrapped request."""
    if not ctx.services.controller.is_active:
        raise NotController(f"broker {ctx.services.node_id} is not the controller")
    handle = ctx.services.handle_forwarded
    if handle is None:
        raise InvalidRequest("this broker does not accept forwarded requests")
    client = ForwardedClient(request.client_host_address, ctx)
    answer = await handle(client, request.request_data)
    return EnvelopeResponse(response_data=answer, error_code=ErrorCode.none)
