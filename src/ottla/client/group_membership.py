"""Membership in a group of the classic protocol whose members are no consumers, but processes of a service.

    JoinGroup with our metadata -> the leader assigns -> SyncGroup -> heartbeats, until the group rebalances

What metadata and assignments mean is the service's: Connect's workers deal out connectors and tasks
(connect/herder), registries elect the one that writes (registry/election.py). Consumers have their own
membership (consumer/membership), which runs callbacks within the application's calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse
from kio.schema.join_group.v9 import JoinGroupRequest, JoinGroupResponse
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.leave_group.v5 import LeaveGroupRequest, LeaveGroupResponse
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.sync_group.v5 import SyncGroupRequest, SyncGroupResponse
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment

from ottla.client.cluster import Cluster
from ottla.client.coordinators import CoordinatorKind, Coordinators
from ottla.client.errors import ClientError, raise_for
from ottla.common.log_limit import RepeatedWarnings
from ottla.common.tasks import cancel_and_wait
from ottla.protocol.errors import (
    IllegalGeneration,
    KafkaError,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.protocol.types import GroupId, i32
from ottla.wire.connection import Connection, milliseconds

log = logging.getLogger(__name__)

PAUSE_S = 0.5
T = TypeVar("T")


@dataclass(frozen=True)
class GroupOptions:
    """How to take part in a group."""

    group_id: str
    protocol_type: str
    """The kind of group: `connect`, `sr`, ..."""
    protocol: str
    """How metadata and assignments are written."""
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    heartbeat_interval_ms: int = 3_000


class GroupEvents(Protocol):
    """Callbacks of a membership."""

    async def group_metadata(self) -> bytes:
        """Return the metadata to join with."""

    async def assign(self, members: Mapping[str, bytes], leader: str) -> Mapping[str, bytes]:
        """Return the assignment of each member, given its metadata; only the leader is asked."""

    async def on_assigned(self, assignment: bytes, generation: int, member_id: str) -> bool:
        """Apply an assignment; return whether to join again at once, because something was given up."""

    async def on_rejoin(self) -> None:
        """Note that the assignment is out of date: the group rebalances, or a request failed."""

    async def on_lost(self) -> None:
        """Give everything up: the group has removed this member, so others may have its work."""


class GroupMembership:
    """Joins a group and stays in it, in the background, until `stop`."""

    def __init__(self, cluster: Cluster, options: GroupOptions, events: GroupEvents) -> None:
        self._cluster = cluster
        self._options = options
        self._events = events
        self._coordinators = Coordinators(cluster)
        self._member_id = ""
        self._generation = -1
        self._rejoin = asyncio.Event()
        self._heard_s = 0.0
        """When the coordinator last counted this process as a member."""
        self._warnings = RepeatedWarnings(log)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Join in the background."""
        self._task = asyncio.create_task(self._run(), name=f"group {self._options.group_id}")

    def rejoin(self) -> None:
        """Have the group assign the work again."""
        self._rejoin.set()

    async def stop(self) -> None:
        """Leave the group."""
        await cancel_and_wait(self._task)
        if self._member_id:
            await self._leave()

    async def _run(self) -> None:
        while True:
            pause_s = 0.0
            try:
                again = await self._join()
                if not again:
                    await self._stay()
            except RebalanceInProgress:
                pass
            except (UnknownMemberId, IllegalGeneration):
                self._member_id, self._generation = "", -1
                await self._events.on_lost()
            except (KafkaError, ClientError, TimeoutError) as error:
                group_id = self._options.group_id
                self._coordinators.forget(CoordinatorKind.GROUP, group_id)
                if not isinstance(error, NotCoordinator | MemberIdRequired):
                    self._warnings.warn("failed", f"group {group_id}: cannot join, retrying: {error}")
                await self._give_up_if_late()
                pause_s = PAUSE_S
            except Exception:  # without heartbeats, others would run what this member still runs
                log.exception("group %s: joining again after an error", self._options.group_id)
                await self._give_up_if_late()
                pause_s = PAUSE_S
            await self._events.on_rejoin()
            await asyncio.sleep(pause_s)

    async def _give_up_if_late(self) -> None:
        """Give everything up once the coordinator must have given this member's work to others."""
        silent_s = asyncio.get_running_loop().time() - self._heard_s
        if self._generation >= 0 and silent_s * 1000 > self._options.session_timeout_ms:
            self._generation = -1
            await self._events.on_lost()

    def _hear(self) -> None:
        self._heard_s = asyncio.get_running_loop().time()

    async def _connection(self) -> Connection:
        return await self._coordinators.connect(CoordinatorKind.GROUP, self._options.group_id)

    async def _join(self) -> bool:
        self._rejoin.clear()
        metadata = await self._events.group_metadata()
        joined = await self._send_join(metadata)  # the coordinator waits for it without heartbeats
        assignments: tuple[SyncGroupRequestAssignment, ...] = ()
        if joined.leader == joined.member_id:
            members = {each.member_id: each.metadata for each in joined.members}
            assigned = await self._events.assign(members, joined.member_id)
            assignments = tuple(
                SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in assigned.items()
            )
        request = SyncGroupRequest(
            group_id=GroupId(self._options.group_id),
            generation_id=i32(self._generation),
            member_id=self._member_id,
            group_instance_id=None,
            protocol_type=self._options.protocol_type,
            protocol_name=self._options.protocol,
            assignments=assignments,
        )
        connection = await self._connection()
        answer = await connection.request(
            request, SyncGroupResponse, timeout_ms=self._options.rebalance_timeout_ms
        )
        raise_for(answer.error_code, self._options.group_id)
        applying = self._events.on_assigned(answer.assignment, self._generation, self._member_id)
        return await self._with_heartbeats(applying)

    async def _send_join(self, metadata: bytes) -> JoinGroupResponse:
        options = self._options
        request = JoinGroupRequest(
            group_id=GroupId(options.group_id),
            session_timeout=milliseconds(options.session_timeout_ms),
            rebalance_timeout=milliseconds(options.rebalance_timeout_ms),
            member_id=self._member_id,
            group_instance_id=None,
            protocol_type=options.protocol_type,
            protocols=(JoinGroupRequestProtocol(name=options.protocol, metadata=metadata),),
        )
        patience_ms = options.rebalance_timeout_ms + options.session_timeout_ms
        joined = await (await self._connection()).request(request, JoinGroupResponse, timeout_ms=patience_ms)
        if joined.error_code == ErrorCode.member_id_required and not self._member_id:
            self._member_id = joined.member_id
            return await self._send_join(metadata)
        raise_for(joined.error_code, options.group_id)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        self._hear()
        return joined

    async def _with_heartbeats(self, work: Awaitable[T]) -> T:
        """Wait until an assignment is applied, which may take longer than the session's timeout."""
        task = asyncio.ensure_future(work)
        pause_s = self._options.heartbeat_interval_ms / 1000
        try:
            while True:
                done, _ = await asyncio.wait((task,), timeout=pause_s)
                if done:
                    return task.result()
                if self._generation >= 0 and self._member_id:
                    try:
                        await self._heartbeat()
                    except RebalanceInProgress:
                        pass
        finally:
            task.cancel()

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=GroupId(self._options.group_id),
            generation_id=i32(self._generation),
            member_id=self._member_id,
            group_instance_id=None,
        )
        connection = await self._connection()
        answer = await connection.request(
            request, HeartbeatResponse, timeout_ms=self._options.session_timeout_ms
        )
        raise_for(answer.error_code, self._options.group_id)
        self._hear()

    async def _stay(self) -> None:
        """Send heartbeats until the group is to be joined again."""
        while not self._rejoin.is_set():
            try:
                await asyncio.wait_for(self._rejoin.wait(), self._options.heartbeat_interval_ms / 1000)
            except TimeoutError:
                await self._heartbeat()

    async def _leave(self) -> None:
        identity = MemberIdentity(member_id=self._member_id, reason="the process stops")
        request = LeaveGroupRequest(group_id=GroupId(self._options.group_id), members=(identity,))
        try:
            async with asyncio.timeout(2):
                await (await self._connection()).request(request, LeaveGroupResponse)
        except (KafkaError, ClientError, TimeoutError) as error:
            log.info("the group could not be left: %s", error)
