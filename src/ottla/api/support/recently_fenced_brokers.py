"""Keep brokers that were fenced recently in the Metadata responses for librdkafka.

Problem: librdkafka 2.16 ends the thread of a broker that Metadata does not list any more, with two
consequences. If the same response moves the broker's partitions elsewhere, they are lost with that thread,
and their leaders are looked up only a second later. And it caches the coordinator of a group for 15 minutes:
if that is the broker without a thread, send_offsets_to_transaction blocks until the program ends, whatever
its timeout, with Apache Kafka's brokers as with ours.

Solution: list a fenced broker for as long as librdkafka caches coordinators. It is not worse than before:
until its session expired it was listed as well.

Consumers and other clients are excluded. Consumers do not need it, and for librdkafka a broker that died
stays down until it connects to one or the list lacks it. When all have died one after the other, it starts
again from its bootstrap servers; a consumer that then learns of a leader that has just died may ask that one
where the log diverges, and never ask for a new leader (decision 53).
"""

from __future__ import annotations

from ottla.api.support.context import LIBRDKAFKA, ClientConnection
from ottla.common.clock import Clock
from ottla.metadata.image import EMPTY, ClusterImage

LISTED_FOR_MS = 16 * 60_000
"""A little longer than librdkafka caches coordinators (its `metadata.max.age.ms`)."""


class RecentlyFencedBrokers:
    """Remembers when brokers were fenced."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._image = EMPTY
        self._until_ms: dict[int, int] = {}

    def still_listed(self, image: ClusterImage, client: ClientConnection) -> frozenset[int]:
        """Return the fenced brokers of the newest image to list for a client."""
        self.note(image)
        if not self._until_ms or client.has_fetched or LIBRDKAFKA not in client.software:
            return frozenset()
        now_ms = self._clock.mono_ms()
        self._until_ms = {node_id: until for node_id, until in self._until_ms.items() if until > now_ms}
        return frozenset(self._until_ms)

    def note(self, image: ClusterImage) -> None:
        """Note the brokers that were fenced since the previous image."""
        if image.brokers is self._image.brokers:
            return
        for node_id, broker in image.brokers.items():
            before = self._image.brokers.get(node_id)
            if not broker.fenced:
                self._until_ms.pop(node_id, None)
            elif before is None or not before.fenced:
                self._until_ms[node_id] = self._clock.mono_ms() + LISTED_FOR_MS
        for node_id in self._until_ms.keys() - image.brokers.keys():
            del self._until_ms[node_id]
        self._image = image
