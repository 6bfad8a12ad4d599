"""The paths of the DEK registry, without a broker."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from starlette.datastructures import Headers, QueryParams

from ottla.http.app import Request
from ottla.http.routing import Routes
from ottla.registry.errors import RegistryError
from ottla.registry.keys.records import Kek, KeyRecord
from ottla.registry.keys.state import KeyState
from ottla.registry.rest.keys import KeyRoutes
from ottla.registry.service import Registry
from ottla.registry.state_store import StateStore


class Keys:
    """A store with two KEKs."""

    async def fresh(self) -> KeyState:
        state = KeyState()
        for offset, shared in enumerate((False, True)):
            name = "shared" if shared else "private"
            state.replay(KeyRecord(name, Kek(name, "aws-kms", "arn", shared=shared)), offset)
        return state


@pytest.mark.parametrize(("name", "code"), [("shared", 50070), ("private", 42271), ("absent", 40470)])
def test_a_kek_that_the_registry_cannot_use_is_refused(name: str, code: int) -> None:
    routes = Routes()
    KeyRoutes(cast(StateStore[KeyState], Keys()), cast(Registry, None)).add_to(routes)
    segments = ["dek-registry", "v1", "keks", name, "test"]
    match = routes.match("POST", segments)
    with pytest.raises(RegistryError) as caught:
        asyncio.run(match.handler(Request("POST", segments, Headers(), QueryParams(""), params=match.params)))
    assert caught.value.code == code
