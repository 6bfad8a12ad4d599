"""Brokers that are gone since a while: librdkafka is still told of them, as it cannot let go of them.

librdkafka 2.16 ends the thread of a broker that Metadata does not name any more, with two consequences. If
the same answer moves the broker's partitions elsewhere, they go down with that thread, and their leaders
are looked for again a second later. And it remembers who coordinates a group for 15 minutes: if that is
the broker without a thread, send_offsets_to_transaction waits for it until the program ends, whatever its
timeout, with Apache Kafka's brokers as with ours. While the broker is listed both go well. That it is
listed promises nothing: until its session ended it was listed as well.

Its consumers are not told, and other clients neither. Consumers have no use for it, and for librdkafka a
broker that died stays down until it connects to one or the list lacks it. When all have died one after
the other, it begins anew from its bootstrap servers; a consumer that then hears of a leader that has just
died may ask that one where the log diverges, and nobody for a new leader (decision 0053).
"""

from __future__ import annotations

from ottla.api.support.context import Peer
from ottla.common.clock import Clock
from ottla.metadata.image import EMPTY, ClusterImage

LISTED_FOR_MS = 16 * 60_000
"""A little longer than librdkafka remembers coordinators (its `metadata.max.age.ms`)."""

_LIBRDKAFKA = "rdkafka"
"""Part of its name, and of the versions of its bindings: confluent-kafka-python 2.16.1-rdkafka-2.16.0."""


class RecentlyFencedBrokers:
    """Remembers when brokers were seen to be gone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._image = EMPTY
        self._until_ms: dict[int, int] = {}

    def still_listed(self, image: ClusterImage, client: Peer) -> frozenset[int]:
        """Return the dead brokers of the newest image that a client is to be told of."""
        self.note(image)
        if not self._until_ms or client.has_fetched or _LIBRDKAFKA not in client.software:
            return frozenset()
        now_ms = self._clock.mono_ms()
        self._until_ms = {node_id: until for node_id, until in self._until_ms.items() if until > now_ms}
        return frozenset(self._until_ms)

    def note(self, image: ClusterImage) -> None:
        """Take note of who is gone since the image before."""
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
