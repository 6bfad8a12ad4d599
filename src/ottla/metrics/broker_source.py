"""Collect the metrics of the whole broker: network, requests, queues and topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ottla.api.support.health_facts import collect
from ottla.api.support.health_findings import CODES, BrokerFinding, findings
from ottla.api.support.request_times import RequestTimes, quantile
from ottla.metrics import exporter_metrics, jmx_metrics, own_metrics
from ottla.metrics.recent import Recent
from ottla.metrics.samples import Distribution, Samples, Summary
from ottla.metrics.view import BrokerView
from ottla.replication.counters import TopicTraffic
from ottla.security.quota_entities import IP, QUOTA_KEYS


async def health(view: BrokerView, samples: Samples) -> list[BrokerFinding]:
    """Add what the broker finds wrong with itself; return it."""
    facts = await collect(view.services)
    found = findings(facts)
    put = samples.put
    put(own_metrics.METADATA_AGE, facts.metadata.age_ms / 1000)
    put(own_metrics.STORE_CONNECTED, not facts.metadata.silent_ms)
    put(own_metrics.ROLLED_BACK, facts.metadata.rolled_back_to >= 0)
    put(own_metrics.SESSION, facts.metadata.has_session)
    put(own_metrics.STALLED, facts.partitions.stalled.count)
    put(own_metrics.AWAITING_DIRECTORY, facts.partitions.awaiting_directory.count)
    put(own_metrics.STUCK_GROUPS, facts.stuck_groups.count)
    put(own_metrics.HANGING, facts.unended_transactions.count + facts.hanging_transactions.count)
    counts = Counter(each.code for each in found)
    for code in CODES:
        put(own_metrics.FINDINGS, counts[code], code)
    events = view.services.partitions.events
    put(own_metrics.LOST_RECORDS, events.lost_records)
    put(own_metrics.TRUNCATIONS, events.truncations_of_committed)
    for disk in facts.disks:
        put(own_metrics.DISK_FULL, disk.is_full, disk.path)
        if disk.size_bytes >= 0:
            put(own_metrics.DISK_FREE, disk.free_bytes, disk.path)
            put(own_metrics.DISK_SIZE, disk.size_bytes, disk.path)
    return found


QUANTILES = ("0.5", "0.75", "0.95", "0.98", "0.99", "0.999")
OF_FETCH = ("FetchConsumer", "FetchFollower")
MS_PER_S = 1000


def broker(view: BrokerView, samples: Samples) -> None:
    """Add the broker's identity."""
    services = view.services
    cluster_id, node_id = services.cluster.image.cluster_id, str(services.node_id)
    samples.put(own_metrics.BUILD_INFO, 1, view.version, node_id, cluster_id)
    samples.put(exporter_metrics.BROKER_INFO, 1, node_id, view.address)


def network(view: BrokerView, samples: Samples) -> None:
    """Add connections, queues and memory limits."""
    server, services, stats = view.server, view.services, view.server.stats
    put = samples.put
    put(own_metrics.CONNECTIONS, stats.connections)
    put(own_metrics.ACCEPTED, stats.accepted)
    put(own_metrics.REJECTED, stats.rejected)
    put(own_metrics.THROTTLED_CONNECTIONS, stats.throttled)
    put(own_metrics.REFUSED_FRAMES, stats.refused_frames)
    put(own_metrics.HANDSHAKES, stats.handshakes, "ok")
    put(own_metrics.HANDSHAKES, stats.failed_handshakes, "failed")
    for (mechanism, is_ok), count in services.logins.items():
        put(own_metrics.LOGINS, count, mechanism, "ok" if is_ok else "failed")
    for operation, count in services.denials.items():
        put(own_metrics.DENIALS, count, operation)
    put(own_metrics.NETWORK_BYTES, stats.bytes_in, "in")
    put(own_metrics.NETWORK_BYTES, stats.bytes_out, "out")
    put(own_metrics.READ_PAUSES, stats.waits)
    put(own_metrics.IN_FLIGHT, server.requests.used)
    put(own_metrics.IN_FLIGHT_LIMIT, server.requests.limit)
    memory = server.frame_bytes
    put(own_metrics.MEMORY, memory.used)
    put(own_metrics.MEMORY_LIMIT, memory.limit)
    put(own_metrics.FETCH_SESSIONS, len(services.fetch_sessions))
    put(jmx_metrics.MEMORY_USED, memory.used)
    put(jmx_metrics.MEMORY_AVAILABLE, max(0, memory.limit - memory.used))
    put(jmx_metrics.REQUEST_QUEUE, server.requests.waiting + memory.waiting)
    put(jmx_metrics.PURGATORY, len(services.purgatory), "Fetch")
    put(jmx_metrics.PURGATORY, server.requests.used, "Produce")
    put(jmx_metrics.PURGATORY, services.groups.parked_count, "Rebalance")


def quotas(view: BrokerView, samples: Samples) -> None:
    """Add how often and how long clients were throttled."""
    services = view.services
    for key, quota in QUOTA_KEYS.items():
        if IP not in quota.entity_types:
            samples.put(own_metrics.THROTTLED_REQUESTS, services.throttles[key], key)
            samples.put(own_metrics.THROTTLE_SECONDS, services.throttle_ms[key] / MS_PER_S, key)


def requests(view: BrokerView, samples: Samples, recent: Recent) -> None:
    """Add the number of requests, and their latencies."""
    samples.put(own_metrics.SLOW_REQUESTS, view.dispatcher.slow.count)
    by_api: dict[str, RequestTimes] = {}
    for times in view.dispatcher.times():
        count = times.count
        if not count:
            continue
        for name in (times.api, "Fetch") if times.api in OF_FETCH else (times.api,):
            samples.put(jmx_metrics.REQUESTS, count, name, str(times.version))
            _add(by_api.setdefault(name, RequestTimes(name, -1)), times)
    for name, times in by_api.items():
        samples.put(own_metrics.REQUEST_SECONDS, Distribution(tuple(times.buckets), times.total_s), name)
        samples.put(own_metrics.REQUEST_LOCAL, times.local_s, name)
        newest = recent.recent_counts(name, times.buckets)
        quantiles = {each: quantile(newest, float(each)) * MS_PER_S for each in QUANTILES}
        total_ms = times.total_s * MS_PER_S
        samples.put(jmx_metrics.TOTAL_TIME, Summary(times.count, total_ms, quantiles), name)


def _add(into: RequestTimes, times: RequestTimes) -> None:
    into.local_s += times.local_s
    into.waited_s += times.waited_s
    into.buckets = [here + more for here, more in zip(into.buckets, times.buckets, strict=True)]


def topics(view: BrokerView, samples: Samples) -> Iterator[None]:
    """Add the traffic of all topics together, and of each topic up to the limit."""
    partitions = view.services.partitions
    traffic, limit = partitions.traffic, view.services.config.ottla_metrics_max_topics
    total = traffic.total()
    _put_traffic(samples, total)
    samples.put(jmx_metrics.REPLICATION_BYTES_IN, total.replicated_bytes_in)
    samples.put(jmx_metrics.REPLICATION_BYTES_OUT, total.replicated_bytes_out)
    samples.put(own_metrics.LEFT_OUT, max(0, len(traffic.topics) - limit), "topics")
    for name, each in list(traffic.topics.items())[:limit]:
        _put_traffic(samples, each, name)
        yield


def _put_traffic(samples: Samples, traffic: TopicTraffic, *labels: str) -> None:
    for name, metric in jmx_metrics.TOPIC_COUNTERS.items():
        match name:
            case "produce_requests":
                value = traffic.appends + traffic.failed_appends
            case "fetch_requests":
                value = traffic.fetches + traffic.failed_fetches
            case _:
                value = getattr(traffic, name)
        samples.put(metric, value, *labels)
