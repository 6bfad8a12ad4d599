"""Collect the metrics of partitions: of each local replica and, on the controller, of the whole cluster."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.metadata.entities import PartitionImage
from ottla.metrics import exporter_metrics, jmx_metrics, own_metrics
from ottla.metrics.samples import Labels, Samples, Summary
from ottla.metrics.view import BrokerView
from ottla.replication.partition import Partition

OF_LEADERS = (
    jmx_metrics.PARTITION_UNDER_REPLICATED,
    jmx_metrics.PARTITION_ISR,
    jmx_metrics.PARTITION_REPLICAS,
    exporter_metrics.CURRENT_OFFSET,
    exporter_metrics.OLDEST_OFFSET,
    exporter_metrics.IN_SYNC,
    exporter_metrics.LEADER,
    exporter_metrics.IS_PREFERRED,
    exporter_metrics.REPLICAS,
    exporter_metrics.UNDER_REPLICATED,
)


class _Sums:
    """Sums over all local partitions, including those without metrics of their own."""

    def __init__(self) -> None:
        self.partitions = self.led = self.size_bytes = 0
        self.under_replicated = self.under_min = self.at_min = self.reassigning = 0
        self.replica_lag = 0

    def count(self, partition: Partition, image: PartitionImage, size_bytes: int) -> None:
        self.partitions += 1
        self.size_bytes += size_bytes
        if not partition.is_leader:
            return
        self.led += 1
        in_sync, needed = len(image.isr), min(partition.min_insync_replicas, len(image.replicas))
        self.under_replicated += is_under_replicated(image)
        self.under_min += in_sync < needed
        self.at_min += in_sync == needed
        self.reassigning += image.is_reassigning
        self.replica_lag = max(self.replica_lag, _replica_lag(partition))

    def put(self, samples: Samples) -> None:
        samples.put(jmx_metrics.PARTITION_COUNT, self.partitions)
        samples.put(jmx_metrics.LEADER_COUNT, self.led)
        samples.put(jmx_metrics.UNDER_REPLICATED, self.under_replicated)
        samples.put(jmx_metrics.UNDER_MIN_ISR, self.under_min)
        samples.put(jmx_metrics.AT_MIN_ISR, self.at_min)
        samples.put(jmx_metrics.REASSIGNING, self.reassigning)
        samples.put(own_metrics.LOG_BYTES, self.size_bytes)
        samples.put(own_metrics.REPLICA_LAG, self.replica_lag)


def is_under_replicated(image: PartitionImage) -> bool:
    """Return whether a replica that is not being removed is out of sync."""
    return not set(image.target).issubset(image.isr)


def _replica_lag(partition: Partition) -> int:
    """Return how many records the slowest follower is behind; one that has never fetched is behind by all."""
    if partition.leader_state is None:
        return 0
    end = partition.log.log_end_offset
    ends = [max(0, each.log_end_offset) for each in partition.leader_state.isr_state.followers.values()]
    return max(0, end - min(ends, default=end))


def partitions(view: BrokerView, samples: Samples) -> Iterator[None]:
    """Add every local partition, up to the limit, and the sums of all."""
    services = view.services
    limit = services.config.ottla_metrics_max_partitions
    sums, shown = _Sums(), 0
    logs, led = _LogRows(samples), _LeaderRows(samples)
    for partition in services.partitions:
        topic_partition = partition.topic_partition
        image = services.cluster.image.partition(topic_partition.topic, topic_partition.partition)
        if image is None:
            continue  # deleted a moment ago
        size_bytes = partition.log.size_bytes
        sums.count(partition, image, size_bytes)
        if shown < limit:
            shown += 1
            labels = (topic_partition.topic, str(topic_partition.partition))
            logs.add(labels, partition, size_bytes)
            if partition.is_leader:
                led.add(labels, partition, image)
        yield
    sums.put(samples)
    samples.put(own_metrics.LEFT_OUT, sums.partitions - shown, "partitions")
    events, directories = services.partitions.events, services.log_directories
    samples.put(jmx_metrics.ISR_SHRINKS, events.isr_shrinks)
    samples.put(jmx_metrics.ISR_EXPANDS, events.isr_expands)
    samples.put(jmx_metrics.OFFLINE_REPLICAS, len(directories.failed) + len(directories.offline))
    samples.put(jmx_metrics.PRODUCER_ID_COUNT, directories.producer_limit.count())
    samples.put(jmx_metrics.OFFLINE_DIRECTORIES, len(directories.offline_reasons))
    samples.put(own_metrics.FLUSHES, view.flusher.flushes)
    samples.put(own_metrics.ISR_PENDING, services.replicator.pending_changes)


class _LogRows:
    """The metrics of each log, as columns."""

    def __init__(self, samples: Samples) -> None:
        self._labels: list[Labels] = []
        self._sizes = samples.values(jmx_metrics.LOG_SIZE, self._labels)
        self._starts = samples.values(jmx_metrics.LOG_START, self._labels)
        self._ends = samples.values(jmx_metrics.LOG_END, self._labels)
        self._segments = samples.values(jmx_metrics.LOG_SEGMENTS, self._labels)

    def add(self, labels: Labels, partition: Partition, size_bytes: int) -> None:
        log = partition.log
        self._labels.append(labels)
        self._sizes.append(size_bytes)
        self._starts.append(log.log_start_offset)
        self._ends.append(log.log_end_offset)
        self._segments.append(len(log.segments))


class _LeaderRows:
    """The metrics of each partition that is led here, as columns."""

    def __init__(self, samples: Samples) -> None:
        self._labels: list[Labels] = []
        self._columns = [samples.values(metric, self._labels) for metric in OF_LEADERS]

    def add(self, labels: Labels, partition: Partition, image: PartitionImage) -> None:
        is_short = is_under_replicated(image)
        in_sync, replicas = len(image.isr), len(image.replicas)
        is_preferred = bool(image.replicas) and image.replicas[0] == image.leader
        start, end = partition.log.log_start_offset, partition.high_watermark
        self._labels.append(labels)
        row = (
            is_short,
            in_sync,
            replicas,
            end,
            start,
            in_sync,
            image.leader,
            is_preferred,
            replicas,
            is_short,
        )
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)


def cluster(view: BrokerView, samples: Samples) -> Iterator[None]:
    """Add the cluster-wide metrics of the controller; other brokers report 0, as Kafka's do."""
    services = view.services
    image, is_controller = services.cluster.image, services.controller.is_active
    offline = imbalance = partition_count = 0
    limit = services.config.ottla_metrics_max_topics
    for number, topic in enumerate(image.topics.values() if is_controller else ()):
        partition_count += len(topic.partitions)
        for each in topic.partitions:
            offline += each.leader < 0
            imbalance += bool(each.replicas) and each.leader != each.replicas[0]
        if number < limit:
            samples.put(exporter_metrics.TOPIC_PARTITIONS, len(topic.partitions), topic.name)
        yield
    fenced = sum(each.fenced for each in image.brokers.values())
    if is_controller:
        samples.put(exporter_metrics.BROKERS, len(image.brokers) - fenced)
    samples.put(jmx_metrics.ACTIVE_CONTROLLER, services.controller.can_act)
    samples.put(jmx_metrics.OFFLINE_PARTITIONS, offline)
    samples.put(jmx_metrics.GLOBAL_TOPICS, len(image.topics) if is_controller else 0)
    samples.put(jmx_metrics.GLOBAL_PARTITIONS, partition_count)
    samples.put(jmx_metrics.IMBALANCE, imbalance)
    samples.put(jmx_metrics.ACTIVE_BROKERS, len(image.brokers) - fenced if is_controller else 0)
    samples.put(jmx_metrics.FENCED_BROKERS, fenced if is_controller else 0)
    events = services.partitions.events
    samples.put(jmx_metrics.UNCLEAN_ELECTIONS, events.unclean_elections)
    samples.put(jmx_metrics.ELECTIONS, Summary(events.elections))
