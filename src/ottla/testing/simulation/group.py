"""Simulated members of a consumer group: they share partitions, read them and commit offsets.

One member in one generation is one reader of the history: it starts at the committed offset, and need not see
everything. No other member may own its partitions in that generation. A committed offset that it fetches is
checked against what was confirmed before its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4 import FindCoordinatorRequest
from kio.schema.heartbeat.v4 import HeartbeatRequest
from kio.schema.join_group.v9 import JoinGroupRequest
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.offset_commit.v8 import OffsetCommitRequest
from kio.schema.offset_commit.v8.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_fetch.v8 import OffsetFetchRequest
from kio.schema.offset_fetch.v8.request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.sync_group.v5 import SyncGroupRequest
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment

from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.errors import ERRORS, KafkaError, UnknownServerError
from ottla.protocol.types import GroupId, TopicName, i8, i32, i64
from ottla.testing.history import History
from ottla.testing.simulation.client import SimClient
from ottla.testing.simulation.consumer import SimConsumer
from ottla.wire.connection import milliseconds

GROUP = "g"
FIND, JOIN, SYNC, HEARTBEAT, COMMIT, FETCH = 4, 9, 5, 4, 8, 8
SESSION_MS, TIMEOUT_MS = 1_200, 4_000
BEAT_S = 0.2
OVERSLEEP, OVERSLEPT_S = 0.1, 3.0
"""How often a member that oversleeps does so before it commits, and for how long: past its session."""
REJOIN = frozenset({ErrorCode.unknown_member_id, ErrorCode.illegal_generation})


class SimGroupMember:
    """Joins, reads and commits until it is stopped."""

    def __init__(
        self,
        client: SimClient,
        history: History,
        name: str,
        places: Sequence[TopicPartition],
        owners: dict[tuple[int, TopicPartition], str],
        oversleeping: Random | None = None,
    ) -> None:
        self.problems: list[str] = []
        """Errors that a member should never get."""
        self.is_stopping = False
        self._client = client
        self._history = history
        self._name = name
        self._places = places
        self._owners = owners
        self._oversleeping = oversleeping
        self._member_id = ""
        self._generation = -1

    async def run(self) -> None:
        """Be a member, again and again, until `is_stopping`."""
        while not self.is_stopping:
            try:
                node_id = await find_coordinator(self._client)
                assigned = await self._join(node_id)
                if assigned is not None:
                    await self._work(node_id, assigned)
            except KafkaError:
                pass
            await self._client.pause()

    async def _join(self, node_id: int) -> list[TopicPartition] | None:
        """Join and sync; return what this member owns, None if it has to join again."""
        protocol = JoinGroupRequestProtocol(
            name="in-turn", metadata=encode_subscription(Subscription((self._places[0].topic,)), 0)
        )
        joined = await self._call(
            node_id,
            ApiKey.JOIN_GROUP,
            JOIN,
            JoinGroupRequest(
                group_id=GroupId(GROUP),
                session_timeout=milliseconds(SESSION_MS),
                rebalance_timeout=milliseconds(SESSION_MS),
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=(protocol,),
            ),
        )
        if joined.error_code in (ErrorCode.none, ErrorCode.member_id_required):
            self._member_id = joined.member_id
        if self._is_refused(joined.error_code):
            return None
        self._generation = joined.generation_id
        members = sorted(each.member_id for each in joined.members)
        dealt = {
            member_id: [place for place in self._places if place.partition % len(members) == number]
            for number, member_id in enumerate(members)
        }
        synced = await self._call(
            node_id,
            ApiKey.SYNC_GROUP,
            SYNC,
            SyncGroupRequest(
                group_id=GroupId(GROUP),
                generation_id=i32(self._generation),
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name="in-turn",
                assignments=tuple(
                    SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(owned))
                    for member_id, owned in dealt.items()
                ),
            ),
        )
        return (
            None
            if self._is_refused(synced.error_code)
            else list(decode_assignment(synced.assignment).partitions)
        )

    async def _work(self, node_id: int, assigned: list[TopicPartition]) -> None:
        """Read the assigned partitions, until the coordinator starts a rebalance."""
        generation = self._generation
        for place in assigned:
            owner = self._owners.setdefault((generation, place), self._name)
            if owner != self._name:
                self.problems.append(f"{owner} and {self._name} own {place} in generation {generation}")
        asked = len(self._history.events)
        committed = await fetch_committed(self._client, node_id, assigned)
        for place, offset in committed.items():
            self._history.commit_read(GROUP, place, offset, since=asked)
        reader = SimConsumer(self._client, self._history, f"{self._name}/{generation}", committed)
        reading = asyncio.ensure_future(reader.run())
        done = dict(committed)
        try:
            while not self.is_stopping:
                await asyncio.sleep(BEAT_S)
                news = {place: at for place, at in reader.positions.items() if at != done[place]}
                if await self._ends_while_it_sleeps():
                    return
                if news and not await self._commit(node_id, generation, news):
                    return
                done.update(news)
                beat = HeartbeatRequest(
                    group_id=GroupId(GROUP), generation_id=i32(generation), member_id=self._member_id
                )
                answer = await self._call(node_id, ApiKey.HEARTBEAT, HEARTBEAT, beat)
                if self._is_refused(answer.error_code):
                    return
        finally:
            reading.cancel()
            self.problems += reader.problems
            for place in assigned:
                self._history.left(f"{self._name}/{generation}", place)

    async def _ends_while_it_sleeps(self) -> bool:
        """Stand still past the session now and then, as a busy program does: what it commits then is old."""
        if self._oversleeping is None or self._oversleeping.random() >= OVERSLEEP:
            return False
        await asyncio.sleep(OVERSLEPT_S)
        return self.is_stopping

    async def _commit(self, node_id: int, generation: int, offsets: dict[TopicPartition, int]) -> bool:
        numbers = {
            place: self._history.committing(GROUP, generation, place, offset)
            for place, offset in offsets.items()
        }
        partitions = tuple(
            OffsetCommitRequestPartition(
                partition_index=i32(place.partition), committed_offset=i64(offset), committed_metadata=""
            )
            for place, offset in offsets.items()
        )
        topic = OffsetCommitRequestTopic(name=TopicName(self._places[0].topic), partitions=partitions)
        request = OffsetCommitRequest(
            group_id=GroupId(GROUP),
            generation_id_or_member_epoch=i32(generation),
            member_id=self._member_id,
            topics=(topic,),
        )
        answer = await self._call(node_id, ApiKey.OFFSET_COMMIT, COMMIT, request)
        is_done = True
        for each in answer.topics[0].partitions:
            if each.error_code is ErrorCode.none:
                self._history.committed(numbers[TopicPartition(topic.name, each.partition_index)])
            else:
                is_done = not self._is_refused(each.error_code) and is_done
        return is_done

    def _is_refused(self, code: ErrorCode) -> bool:
        if code in REJOIN:
            self._member_id = ""
        return code is not ErrorCode.none

    async def _call(self, node_id: int, api_key: int, version: int, request: Any) -> Any:
        return await self._client.peers.call(
            node_id, api_key, version, request, timeout_ms=TIMEOUT_MS, channel=self._name
        )


async def find_coordinator(client: SimClient) -> int:
    """Return the broker that coordinates the group."""
    request = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(GROUP,))
    response = await client.call(client.any_node(), ApiKey.FIND_COORDINATOR, FIND, request)
    found = response.coordinators[0]
    _raise_for(found.error_code)
    return int(found.node_id)


async def fetch_committed(
    client: SimClient, node_id: int, places: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return what the group has committed; 0 where it has committed nothing."""
    if not places:
        return {}
    topic = OffsetFetchRequestTopics(
        name=TopicName(places[0].topic), partition_indexes=tuple(i32(place.partition) for place in places)
    )
    group = OffsetFetchRequestGroup(group_id=GroupId(GROUP), topics=(topic,))
    response = await client.call(
        node_id, ApiKey.OFFSET_FETCH, FETCH, OffsetFetchRequest(groups=(group,)), "offsets"
    )
    answer = response.groups[0]
    _raise_for(answer.error_code)
    found = {}
    for each in answer.topics[0].partitions:
        _raise_for(each.error_code)
        found[TopicPartition(topic.name, each.partition_index)] = max(0, int(each.committed_offset))
    return found


def _raise_for(code: ErrorCode) -> None:
    if code is not ErrorCode.none:
        error: type[KafkaError] = ERRORS.get(code, UnknownServerError)
        raise error(code.name)
