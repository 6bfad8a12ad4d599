"""The newest image, and who wants to know when it changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.metadata.image import EMPTY, ClusterImage

logger = logging.getLogger(__name__)
Subscriber = Callable[[ClusterImage, ClusterImage], Awaitable[None] | None]


class ClusterState:
    """Holds the newest `ClusterImage`; lives as long as the broker."""

    def __init__(self, image: ClusterImage = EMPTY) -> None:
        self.image = image
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber(old, new)` after every change; return what ends that.

        A subscriber may return an awaitable (to open a thousand logs without holding up the loop,
        say). Whoever asked for the change is answered, and the next change begins, only when it is
        done; `image` is the new one from the start.
        """
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    async def publish(self, new: ClusterImage) -> None:
        """Make `new` the newest image and tell every subscriber, in the order they came."""
        old, self.image = self.image, new
        for subscriber in tuple(self._subscribers):
            # The change is committed: one subscriber's failure must not hide it from the others.
            try:
                done = subscriber(old, new)
                if done is not None:
                    await done
            except Exception:
                logger.exception("a subscriber failed to follow the metadata to version %d", new.version)

    async def wait_until(self, is_so: Callable[[ClusterImage], bool]) -> ClusterImage:
        """Wait for an image of which this holds, and until the subscribers have followed it; return it."""
        if is_so(self.image):
            return self.image
        seen: asyncio.Future[ClusterImage] = asyncio.get_running_loop().create_future()

        def look(_: ClusterImage, new: ClusterImage) -> None:
            if not seen.done() and is_so(new):
                seen.set_result(new)

        unsubscribe = self.subscribe(look)
        try:
            return await seen
        finally:
            unsubscribe()
