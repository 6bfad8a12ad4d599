"""What the REST API of Connect refuses before a handler runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import Headers, QueryParams

from ottla.connect.rest.access import ConnectorAccess
from ottla.connect.rest.app import refuse_other_bodies
from ottla.connect.rest.connectors import ConnectorRoutes
from ottla.http.app import Request, Response
from ottla.http.errors import HttpError
from ottla.http.routing import Routes
from ottla.security.acls import Operation


async def handler(request: Request) -> Response:
    return Response(b"done")


def post(body: bytes, **headers: str) -> Request:
    named = Headers({name.replace("_", "-"): value for name, value in headers.items()})
    return Request("POST", ["connectors"], named, QueryParams(), body)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({}, 415),
    ],
)
async def test_what_a_page_of_another_site_can_send_is_refused(headers: dict[str, str], status: int) -> None:
    with pytest.raises(HttpError) as refused:
        await refuse_other_bodies(post(b'{"name": "evil"}', **headers), handler)
    assert refused.value.status == status


async def test_programs_send_json_or_nothing() -> None:
    for request in (
        post(b"{}", content_type="application/json; charset=utf-8"),
        post(b"{}", content_type="application/vnd.kafka.connect+json", sec_fetch_site="same-origin"),
        post(b""),
    ):
        assert (await refuse_other_bodies(request, handler)).body == b"done"


class _Herder:
    """A worker that is not the leader."""

    leader_url = "http://leader"
    is_leader = False

    def __init__(self) -> None:
        self.state = SimpleNamespace(connectors={"known": {}})


class _Forwarder:
    async def to_leader(self, request: Request) -> Response:
        return Response(b"passed on")


class _FromTheOffice:
    """ACLs that allow everything from one address."""

    def allows(self, principal: str, host: str, operation: Operation, name: str) -> bool:
        return host == "10.0.0.7"

    def allows_on_cluster(self, principal: str, host: str, operation: Operation) -> bool:
        return False


async def test_who_may_create_a_connector_is_decided_where_the_request_arrives() -> None:
    """The leader sees only the address of the worker that passes the request on."""
    routes = Routes()
    requests: Any = SimpleNamespace(herder=_Herder())
    forwarder: Any = _Forwarder()
    ConnectorRoutes(requests, ConnectorAccess(_FromTheOffice()), forwarder).add_to(routes)

    async def send(method: str, path: str, host: str) -> bytes:
        found = routes.match(method, path.split("/"))
        request = Request(method, path.split("/"), Headers(), QueryParams(), b'{"name": "new", "config": {}}')
        request.client, request.params = f"{host}:1", found.params
        return (await found.handler(request)).body

    for method, path in (("POST", "connectors"), ("PUT", "connectors/new/config")):
        assert await send(method, path, "10.0.0.7") == b"passed on"
        with pytest.raises(HttpError, match="denied operation Create on Connector: new"):
            await send(method, path, "10.0.0.8")
    assert await send("PUT", "connectors/known/config", "10.0.0.8") == b"passed on", "ALTER is checked before"
