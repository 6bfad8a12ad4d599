"""Chooses whose credentials are verified next, so that wrong passwords do not delay right ones.

Problem: a broker answers a wrong password late, on purpose, and only so many logins are tried at once. Who
sends many wrong passwords could hold all of these places.

Solution: credentials that were accepted before go first. The others take turns by the client's address: an
address with a thousand waiting logins delays that of another address by one turn.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ottla.common.listeners import network_of


class LoginQueue:
    """Lets a number of logins be in progress at once."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._known: deque[asyncio.Future[None]] = deque()
        self._by_address: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, address: str, *, is_known: bool = False) -> AsyncIterator[None]:
        """Wait for a free slot, and hold it within the block."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(address, is_known)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, address: str, is_known: bool) -> None:
        place = asyncio.get_running_loop().create_future()
        waiting = self._known if is_known else self._by_address.setdefault(network_of(address), deque())
        waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was given the place at the same time
                self._release()
            raise

    def _release(self) -> None:
        while (place := self._next()) is not None:
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def _next(self) -> asyncio.Future[None] | None:
        if self._known:
            return self._known.popleft()
        if not self._by_address:
            return None
        address, waiting = self._by_address.popitem(last=False)
        place = waiting.popleft()
        if waiting:
            self._by_address[address] = waiting  # behind all others
        return place
