from typing import Any

import pytest

from ottla.http.errors import HttpError
from ottla.http.routing import Routes, segments_of


async def one(request: Any) -> None: ...
async def two(request: Any) -> None: ...


def made() -> Routes:
    routes = Routes()
    routes.add("GET", "/schemas/types", one)
    routes.add("GET", "/schemas/{id}/versions", two)
    routes.add("GET", "/", one)
    return routes


@pytest.mark.parametrize(
    ("path", "handler", "params"),
    [
        ("/schemas/types", one, {}),
        ("/schemas/types/versions", two, {"id": "types"}),
        ("/schemas/a%2Fb%20c/versions/", two, {"id": "a/b c"}),
        ("/", one, {}),
        ("", one, {}),
    ],
)
def test_paths_lead_to_handlers(path: str, handler: Any, params: dict[str, str]) -> None:
    assert made().match("GET", segments_of(path))[:2] == (handler, params)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/no", 404), ("PUT", "/schemas/types", 405)])
def test_others_lead_nowhere(method: str, path: str, status: int) -> None:
    with pytest.raises(HttpError) as refused:
        made().match(method, segments_of(path))
    assert refused.value.status == status


def test_head_is_served_by_get_and_a_path_has_one_handler() -> None:
    routes = made()
    assert routes.match("HEAD", ["schemas", "types"]).handler is one
    with pytest.raises(ValueError, match="has a handler already"):
        routes.add("GET", "/schemas/types", two)
