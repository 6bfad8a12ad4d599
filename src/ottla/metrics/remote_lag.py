"""Consumer lag in partitions that have no replica on the group's coordinator.

In a cluster with more brokers than replicas the coordinator has to ask the partition leaders (MeasureLag).
Each scrape asks: all leaders at the same time, many partitions in one request, within TIMEOUT_MS. A partition
whose leader does not answer in time has no lag in that scrape, never an old one (decision 181). `lag_queries`
and `requests` are pure.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from ottla.api.support.context import Services
from ottla.common.yielding import run_in_slices
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import OffsetValue
from ottla.coordinator.group.requests import FetchRequest
from ottla.coordinator.lag import LatestOffsets
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.own_messages import MeasureLagRequest, MeasureLagResponse, PartitionToMeasure
from ottla.protocol.types import TopicName, i32, i64

logger = logging.getLogger(__name__)

MAX_PER_REQUEST = 500
TIMEOUT_MS = 2_000
"""How long a scrape waits for a leader."""
CHANNEL = "lag"
"""A connection of its own: a response may take a while, and a broker without this API closes the
connection.
"""


class LagQuery(NamedTuple):
    """A partition, and the offset that a group has committed in it."""

    group_id: str
    topic: str
    partition: int
    offset: int


Key = tuple[str, str, int]
"""Group, topic, partition."""


Measured = dict[Key, LatestOffsets]


def lookup(measured_now: Measured, group_id: str) -> Callable[[str, int], LatestOffsets | None]:
    """Return a look-up of the partitions of a group."""
    return lambda topic, partition: measured_now.get((group_id, topic, partition))


async def measure_remote_lag(services: Services) -> Measured:
    """Ask the leaders of all remote partitions, at the same time; leave out those that do not answer."""
    if len(services.cluster.image.brokers) < 2 or services.peers is None:
        return {}
    queries: list[LagQuery] = []
    await run_in_slices(_collect_queries(queries, services))
    by_leader: dict[int, list[list[LagQuery]]] = {}
    for leader, batch in requests(queries, lambda each: _leader(services, each)):
        by_leader.setdefault(leader, []).append(batch)
    results: Measured = {}
    asked = (_ask(services, leader, batches, results) for leader, batches in by_leader.items())
    await asyncio.gather(*asked)
    return results


async def _ask(services: Services, leader: int, batches: list[list[LagQuery]], results: Measured) -> None:
    """Ask one leader, one request after the other; stop at the first that it does not answer."""
    assert services.peers is not None
    try:
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            for batch in batches:
                response = await services.peers.call(
                    leader, ApiKey.MEASURE_LAG, 0, request_for(batch), timeout_ms=TIMEOUT_MS, channel=CHANNEL
                )
                results.update(measured(batch, response))
    except (KafkaError, TimeoutError) as error:
        logger.debug("broker %d did not answer MeasureLag: %s", leader, error)


def _collect_queries(queries: list[LagQuery], services: Services) -> Iterator[None]:
    """Fill a list, one group at a time, up to the limits of groups and partitions with metrics of their
    own.
    """
    limit = services.config.ottla_metrics_max_partitions
    for machine, group_id in islice(services.groups.listed_now(), services.config.ottla_metrics_max_groups):
        queries.extend(lag_queries(machine, group_id, services.groups.has_replica))
        if len(queries) >= limit:
            del queries[limit:]
            return
        yield


def lag_queries(
    machine: GroupMachine, group_id: str, has_replica: Callable[[str, int], bool]
) -> Iterator[LagQuery]:
    """Yield the remote partitions in which a group has committed offsets."""
    for topic, partitions in machine.offsets.fetch(FetchRequest(group_id, None)):
        for index, committed in partitions:
            if isinstance(committed, OffsetValue) and not has_replica(topic, index):
                yield LagQuery(group_id, topic, index, committed.offset)


def _leader(services: Services, query: LagQuery) -> int:
    found = services.cluster.image.partition(query.topic, query.partition)
    return -1 if found is None else found.leader


def requests(
    queries: list[LagQuery], leader_of: Callable[[LagQuery], int]
) -> Iterator[tuple[int, list[LagQuery]]]:
    """Yield the partitions to ask each leader for, in batches; skip those without a leader."""
    by_leader: dict[int, list[LagQuery]] = {}
    for each in queries:
        leader = leader_of(each)
        if leader >= 0:
            by_leader.setdefault(leader, []).append(each)
    for leader, of_leader in by_leader.items():
        for first in range(0, len(of_leader), MAX_PER_REQUEST):
            yield leader, of_leader[first : first + MAX_PER_REQUEST]


def request_for(batch: list[LagQuery]) -> MeasureLagRequest:
    """Return the request; the response has the same order."""
    return MeasureLagRequest(
        partitions=tuple(
            PartitionToMeasure(
                topic=TopicName(each.topic), partition_index=i32(each.partition), offset=i64(each.offset)
            )
            for each in batch
        )
    )


def measured(batch: list[LagQuery], response: MeasureLagResponse) -> Iterator[tuple[Key, LatestOffsets]]:
    """Yield the result of each partition, skipping errors."""
    for query, each in zip(batch, response.partitions, strict=False):
        if each.error_code == ErrorCode.none:
            results = LatestOffsets(
                each.start_offset, each.end_offset, None if each.timestamp < 0 else each.timestamp
            )
            yield (query.group_id, query.topic, query.partition), results
