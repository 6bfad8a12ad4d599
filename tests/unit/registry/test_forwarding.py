"""Which requests are given to the elected registry process."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers, QueryParams

from ottla.http.app import Request
from ottla.registry.rest.forwarding import changes


@pytest.mark.parametrize(
    ("method", "path", "is_change"),
    [
        ("POST", "subjects/orders-value", False),
        ("POST", "subjects/orders-value/versions", True),
        ("POST", "compatibility/subjects/orders-value/versions", False),
        ("POST", "schemas/ids/1/decode", False),
        ("POST", "dek-registry/v1/keks", True),
        ("POST", "associations", True),
        ("POST", "associations:batchMutate", True),
        ("POST", "associations:batchGet", False),
        ("POST", "exporters", True),
        ("PUT", "exporters/dr/pause", True),
        ("GET", "exporters", False),
    ],
)
def test_what_changes_something_is_given_to_the_elected_process(
    method: str, path: str, is_change: bool
) -> None:
    assert changes(Request(method, path.split("/"), Headers(), QueryParams(""))) is is_change
