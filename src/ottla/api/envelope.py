"""Envelope: a request of a client that another broker passes on, because this one is the controller.

v0 is the only version. The whole request is inside, header included, and so is the whole response. A broker
that is not the controller says so and nothing else: what was passed on is never passed on again.
"""

from __future__ import annotations

from ipaddress import ip_address

from kio.schema.envelope.v0 import EnvelopeRequest, EnvelopeResponse
from kio.schema.errors import ErrorCode

from ottla.api.support.context import RequestContext
from ottla.protocol.errors import InvalidRequest, NotController


class ForwardedClient:
    """The client behind an envelope, as a handler sees it."""

    def __init__(self, address: bytes, ctx: RequestContext) -> None:
        try:
            self.host = str(ip_address(address))
        except ValueError:
            self.host = ctx.connection.host
        self.peer = f"{self.host} by way of {ctx.connection.peer}"
        self.listener_name = ctx.connection.listener_name
        self.software = ""
        self.has_fetched = self.has_queued_request = False

    def hold(self) -> None:
        """Do nothing: what is forwarded does not have to be held up."""

    def release(self) -> None:
        """Do nothing, as in `hold`."""


async def envelope(request: EnvelopeRequest, ctx: RequestContext) -> EnvelopeResponse:
    """Serve the request inside."""
    if not ctx.services.controller.is_active:
        raise NotController(f"broker {ctx.services.node_id} is not the controller")
    handle = ctx.services.handle_forwarded
    if handle is None:
        raise InvalidRequest("nothing can be passed on to this broker")
    client = ForwardedClient(request.client_host_address, ctx)
    answer = await handle(client, request.request_data)
    return EnvelopeResponse(response_data=answer, error_code=ErrorCode.none)
