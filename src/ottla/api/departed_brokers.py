"""Brokers that died a moment ago: clients are still told of them, so that they let go of them in order.

A client that learns in one answer that a broker is gone and that another leads its partitions may mix up the
two: librdkafka 2.16 gives up the dead broker together with the partitions that it has just moved elsewhere,
and looks for their leaders again a second later. Told in two steps, it goes on at once. That a broker is
listed promises nothing: until its session ended it was listed as well.
"""

from __future__ import annotations

from ottla.common.clock import Clock
from ottla.metadata.image import EMPTY, ClusterImage

LISTED_FOR_MS = 5_000


class DepartedBrokers:
    """Remembers when the brokers were seen to be dead that did not say that they would stop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._image = EMPTY
        self._until_ms: dict[int, int] = {}

    def still_listed(self, image: ClusterImage) -> frozenset[int]:
        """Return the dead brokers of the newest image that clients are to be told of."""
        now_ms = self._clock.mono_ms()
        if image.brokers is not self._image.brokers:
            self._note(image, now_ms)
        self._image = image
        if not self._until_ms:
            return frozenset()
        self._until_ms = {node_id: until for node_id, until in self._until_ms.items() if until > now_ms}
        return frozenset(self._until_ms)

    def _note(self, image: ClusterImage, now_ms: int) -> None:
        for node_id, broker in image.brokers.items():
            before = self._image.brokers.get(node_id)
            if not broker.fenced:
                self._until_ms.pop(node_id, None)
            elif before is not None and not before.fenced and not before.shutting_down:
                self._until_ms[node_id] = now_ms + LISTED_FOR_MS
        for node_id in self._until_ms.keys() - image.brokers.keys():
            del self._until_ms[node_id]
