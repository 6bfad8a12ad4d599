"""How far groups are behind in partitions that have no replica on the broker that coordinates them.

In a cluster with more brokers than replicas their leaders have to be asked. That is never done by a scrape,
which would wait for other brokers: a task asks while somebody scrapes, every few seconds, and a scrape takes
what was heard last. One request asks one leader for many partitions, and no more than so many partitions are
asked for in a second, whatever the number of groups. `questions` and `requests` are pure.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from ottla.api.support.context import Services
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import OffsetValue
from ottla.coordinator.group.requests import FetchRequest
from ottla.coordinator.lag import LatestOffsets
from ottla.metrics.samples import in_slices
from ottla.metrics.view import BrokerView
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.own_messages import MeasureLagRequest, MeasureLagResponse, PartitionToMeasure
from ottla.protocol.types import TopicName, i32, i64

logger = logging.getLogger(__name__)

ASK_EVERY_S = 5.0
ASKED_PER_S = 1_000
"""So that it takes no more than a few hundredths of a broker's time."""
MOST_PER_REQUEST = 500
UNTIL_UNWANTED_S = 120.0
"""How long after the last scrape it goes on."""
TIMEOUT_MS = 3_000
CHANNEL = "lag"
"""A connection of its own: an answer may take a while, and a broker that is older than this API hangs up."""


class Question(NamedTuple):
    """How long is a partition, for a group that has read to `offset`?"""

    group_id: str
    topic: str
    partition: int
    offset: int


Key = tuple[str, str, int]
"""Group, topic, partition."""


class RemoteLag:
    """What the leaders of partitions elsewhere have said, from `start` to `stop`."""

    def __init__(self) -> None:
        self._told: dict[Key, LatestOffsets] = {}
        self._wanted = asyncio.Event()
        self._wanted_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self, view: BrokerView) -> None:
        """Begin to ask, as soon as somebody wants to know."""
        if view.services.peers is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(view), name="distant lag")

    async def stop(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def of_group(self, group_id: str) -> Callable[[str, int], LatestOffsets | None]:
        """Return what finds out what was said of a partition; somebody wants to know it now."""
        self._wanted_at = asyncio.get_running_loop().time()
        self._wanted.set()
        return lambda topic, partition: self._told.get((group_id, topic, partition))

    async def _run(self, view: BrokerView) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            try:
                self._told = await ask(view.services)
            except Exception:
                logger.exception("the lags of groups in partitions elsewhere are not known")
            await asyncio.sleep(ASK_EVERY_S)
            if loop.time() - self._wanted_at > UNTIL_UNWANTED_S:
                self._wanted.clear()
                self._told = {}


async def ask(services: Services) -> dict[Key, LatestOffsets]:
    """Ask the leaders of all partitions elsewhere, one after the other; who does not answer is left out."""
    if len(services.cluster.image.brokers) < 2:
        return {}
    wanted: list[Question] = []
    await in_slices(_into(wanted, services))
    told: dict[Key, LatestOffsets] = {}
    for leader, batch in requests(wanted, lambda each: _leader(services, each)):
        try:
            assert services.peers is not None
            response = await services.peers.call(
                leader, ApiKey.MEASURE_LAG, 0, request_for(batch), timeout_ms=TIMEOUT_MS, channel=CHANNEL
            )
        except KafkaError as error:
            logger.debug("broker %d does not say how far groups are behind: %s", leader, error)
        else:
            told.update(answers(batch, response))
        await asyncio.sleep(len(batch) / ASKED_PER_S)
    return told


def _into(wanted: list[Question], services: Services) -> Iterator[None]:
    """Fill a list, one group at a time: as many groups and partitions as have metrics of their own."""
    limit = services.config.ottla_metrics_max_partitions
    for machine, group_id in islice(services.groups.listed_now(), services.config.ottla_metrics_max_groups):
        wanted.extend(questions(machine, group_id, services.groups.has_replica))
        if len(wanted) >= limit:
            del wanted[limit:]
            return
        yield


def questions(
    machine: GroupMachine, group_id: str, has_replica: Callable[[str, int], bool]
) -> Iterator[Question]:
    """Yield what is to be asked about a group."""
    for topic, partitions in machine.offsets.fetch(FetchRequest(group_id, None)):
        for index, kept in partitions:
            if isinstance(kept, OffsetValue) and not has_replica(topic, index):
                yield Question(group_id, topic, index, kept.offset)


def _leader(services: Services, asked: Question) -> int:
    found = services.cluster.image.partition(asked.topic, asked.partition)
    return -1 if found is None else found.leader


def requests(
    wanted: list[Question], leader_of: Callable[[Question], int]
) -> Iterator[tuple[int, list[Question]]]:
    """Yield whom to ask what; nobody is asked about a partition without a leader."""
    by_leader: dict[int, list[Question]] = {}
    for each in wanted:
        leader = leader_of(each)
        if leader >= 0:
            by_leader.setdefault(leader, []).append(each)
    for leader, all_of_it in by_leader.items():
        for first in range(0, len(all_of_it), MOST_PER_REQUEST):
            yield leader, all_of_it[first : first + MOST_PER_REQUEST]


def request_for(batch: list[Question]) -> MeasureLagRequest:
    """Return the request; the answers come in the order of the questions."""
    return MeasureLagRequest(
        partitions=tuple(
            PartitionToMeasure(
                topic=TopicName(each.topic), partition_index=i32(each.partition), offset=i64(each.offset)
            )
            for each in batch
        )
    )


def answers(batch: list[Question], response: MeasureLagResponse) -> Iterator[tuple[Key, LatestOffsets]]:
    """Yield what was said about which question, except where it went wrong."""
    for asked, each in zip(batch, response.partitions, strict=False):
        if each.error_code == ErrorCode.none:
            told = LatestOffsets(
                each.start_offset, each.end_offset, None if each.timestamp < 0 else each.timestamp
            )
            yield (asked.group_id, asked.topic, asked.partition), told
