"""Counters of partitions that only grow. Metrics read them; nothing decides by them."""

from __future__ import annotations

from ottla.metadata.entities import CLEAN, PartitionImage, election_kind


class TopicTraffic:
    """The traffic of the partitions of one topic on this broker."""

    __slots__ = (
        "appends",
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_appends",
        "failed_fetches",
        "fetches",
        "records_in",
        "replicated_bytes_in",
        "replicated_bytes_out",
    )

    def __init__(self) -> None:
        self.records_in = self.bytes_in = self.appends = 0
        self.failed_appends = self.bytes_rejected = 0
        self.bytes_out = self.fetches = self.failed_fetches = 0
        """What clients read; `failed_fetches` were rejected."""
        self.replicated_bytes_in = self.replicated_bytes_out = 0
        """What replicas copied, from other brokers and to them."""

    def add(self, other: TopicTraffic) -> None:
        """Add the counters of another one."""
        for name in TopicTraffic.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Traffic:
    """The traffic of every topic with a replica here, and the sum of deleted topics."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        self._other = TopicTraffic()
        """Of deleted topics, and of unknown names: clients can make up any number of them."""

    def of(self, topic: str) -> TopicTraffic:
        """Return the counters of a topic with a replica here."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def for_client(self, topic: str | None) -> TopicTraffic:
        """Return the counters for a topic name from a client, which may not exist."""
        return self.topics.get(topic or "", self._other)

    def forget(self, topic: str) -> None:
        """Keep only the sum of a deleted topic."""
        gone = self.topics.pop(topic, None)
        if gone is not None:
            self._other.add(gone)

    def total(self) -> TopicTraffic:
        """Return the sum of everything since the start."""
        total = TopicTraffic()
        total.add(self._other)
        for each in self.topics.values():
            total.add(each)
        return total


class PartitionEvents:
    """ISR changes of partitions led here, and elections held here."""

    __slots__ = (
        "elections",
        "isr_expands",
        "isr_shrinks",
        "lost_records",
        "truncations_of_committed",
        "unclean_elections",
    )

    def __init__(self) -> None:
        self.isr_shrinks = self.isr_expands = 0
        self.elections = self.unclean_elections = 0
        self.lost_records = self.truncations_of_committed = 0

    def count_truncation(self, high_watermark: int, end_offset: int) -> None:
        """Count the records that a replica lost although they were committed."""
        if end_offset < high_watermark:
            self.truncations_of_committed += 1
            self.lost_records += high_watermark - end_offset

    def count_change(
        self, before: PartitionImage, after: PartitionImage, node_id: int, *, is_controller: bool
    ) -> None:
        """Count a partition change: the leader counts ISR changes, the controller elections."""
        if after.leader == node_id and before.isr != after.isr:
            if set(before.isr) - set(after.isr):
                self.isr_shrinks += 1
            if set(after.isr) - set(before.isr):
                self.isr_expands += 1
        if is_controller and after.leader not in (before.leader, -1):
            self.elections += 1
            if election_kind(before, after) != CLEAN:
                self.unclean_elections += 1
