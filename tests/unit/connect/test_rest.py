"""What the REST API of Connect refuses before a handler runs."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers, QueryParams

from ottla.connect.rest.app import refuse_other_bodies
from ottla.http.app import Request, Response
from ottla.http.errors import HttpError


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
