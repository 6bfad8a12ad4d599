"""Which registry process writes, beside Apache Kafka: elected through a consumer group, as Confluent's does.

Every process joins the group `schema-registry` with the protocol type `sr`, and says where it is. The
group's leader member names the process that writes: the one with the smallest URL among those that may.
Confluent's processes take part in the same election, and understand ours.

    metadata      {"version":1,"host":...,"port":...,"master_eligibility":true,"scheme":"http"}
    assignment    {"version":1,"error":0,"master":MEMBER_ID,"master_identity":{...the metadata...}}
"""

from __future__ import annotations

import asyncio
import json
import logging
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse
from kio.schema.join_group.v9 import JoinGroupRequest, JoinGroupResponse
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.leave_group.v5 import LeaveGroupRequest, LeaveGroupResponse
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.sync_group.v5 import SyncGroupRequest, SyncGroupResponse
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment

from ottla.client import ClientError, KafkaError
from ottla.client.cluster import Cluster
from ottla.client.coordinators import CoordinatorKind, Coordinators
from ottla.client.errors import raise_for
from ottla.common.log_limit import RepeatedWarnings
from ottla.protocol.errors import (
    IllegalGeneration,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.protocol.types import GroupId, i32
from ottla.wire.connection import Connection, milliseconds

log = logging.getLogger(__name__)

GROUP_ID = "schema-registry"
PROTOCOL_TYPE = "sr"
PROTOCOL = "v0"
SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 60_000
HEARTBEAT_S = 3.0
PAUSE_S = 0.5
DUPLICATE_URLS = 1


def identity_of(url: str) -> dict[str, Any]:
    """Return what a process says of itself."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {
        "version": 1,
        "host": parts.hostname,
        "port": port,
        "master_eligibility": True,
        "scheme": parts.scheme,
    }


def url_of(identity: dict[str, Any]) -> str:
    """Return where a process is."""
    host = str(identity["host"])
    shown = f"[{host}]" if ":" in host else host
    return f"{identity.get('scheme') or 'http'}://{shown}:{identity['port']}"


def elect(members: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the assignment for all members: the elected writer."""
    urls = {member: url_of(identity) for member, identity in members.items()}
    eligible = [each for each in members if members[each].get("master_eligibility", True)]
    found: dict[str, Any] = {"version": 1, "error": 0}
    if len(set(urls.values())) != len(urls):
        found["error"] = DUPLICATE_URLS
    if eligible:
        elected = min(eligible, key=lambda member: urls[member])
        found |= {"master": elected, "master_identity": members[elected]}
    return found


class Election:
    """Takes part in the election; use it as `async with Election(cluster, url)`."""

    def __init__(self, cluster: Cluster, url: str, group_id: str = GROUP_ID) -> None:
        self.leader_url: str | None = None
        """The URL of the elected process; None while no process is elected, or it is not known which."""
        self.changed = asyncio.Event()
        """Set whenever `leader_url` may have changed."""
        self.url = url_of(identity_of(url))
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)
        self._group_id = group_id
        self._member_id = ""
        self._generation = -1
        self._warnings = RepeatedWarnings(log)
        self._task: asyncio.Task[None] | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this process is the one that writes."""
        return self.leader_url == self.url

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="registry election")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._member_id:
            await self._leave()

    def _know(self, leader_url: str | None) -> None:
        if leader_url != self.leader_url:
            log.info("the elected writer of schemas is %s", leader_url or "unknown")
        self.leader_url = leader_url
        self.changed.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._join()
                await self._stay()
            except RebalanceInProgress:
                pass
            except (UnknownMemberId, IllegalGeneration):
                self._member_id, self._generation = "", -1
            except (KafkaError, ClientError) as error:
                self._coordinators.forget(CoordinatorKind.GROUP, self._group_id)
                if not isinstance(error, NotCoordinator | MemberIdRequired):
                    self._warnings.warn("failed", f"the election failed, retrying: {error}")
                await asyncio.sleep(PAUSE_S)
            self._know(None)  # without a confirmed election this process must not write

    async def _connection(self) -> Connection:
        return await self._coordinators.connect(CoordinatorKind.GROUP, self._group_id)

    async def _join(self) -> None:
        connection = await self._connection()
        metadata = json.dumps(identity_of(self.url), separators=(",", ":")).encode()
        request = JoinGroupRequest(
            group_id=GroupId(self._group_id),
            session_timeout=milliseconds(SESSION_TIMEOUT_MS),
            rebalance_timeout=milliseconds(REBALANCE_TIMEOUT_MS),
            member_id=self._member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata),),
        )
        joined = await connection.request(
            request, JoinGroupResponse, timeout_ms=REBALANCE_TIMEOUT_MS + SESSION_TIMEOUT_MS
        )
        if joined.error_code == ErrorCode.member_id_required and not self._member_id:
            self._member_id = joined.member_id
            return await self._join()
        raise_for(joined.error_code, self._group_id)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        assignments: tuple[SyncGroupRequestAssignment, ...] = ()
        if joined.leader == joined.member_id:
            members = {each.member_id: json.loads(each.metadata) for each in joined.members}
            elected = json.dumps(elect(members), separators=(",", ":")).encode()
            assignments = tuple(
                SyncGroupRequestAssignment(member_id=each, assignment=elected) for each in members
            )
        return await self._sync(connection, assignments)

    async def _sync(
        self, connection: Connection, assignments: tuple[SyncGroupRequestAssignment, ...]
    ) -> None:
        request = SyncGroupRequest(
            group_id=GroupId(self._group_id),
            generation_id=i32(self._generation),
            member_id=self._member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        answer = await connection.request(request, SyncGroupResponse, timeout_ms=REBALANCE_TIMEOUT_MS)
        raise_for(answer.error_code, self._group_id)
        elected = json.loads(answer.assignment)
        if elected.get("error") == DUPLICATE_URLS:
            log.error("several registry processes say that they are at the same URL: see --advertise")
            self._know(None)
            return
        identity = elected.get("master_identity")
        self._know(None if identity is None else url_of(identity))

    async def _stay(self) -> None:
        """Send heartbeats until the group is to be joined again."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            request = HeartbeatRequest(
                group_id=GroupId(self._group_id),
                generation_id=i32(self._generation),
                member_id=self._member_id,
                group_instance_id=None,
            )
            answer = await (await self._connection()).request(
                request, HeartbeatResponse, timeout_ms=SESSION_TIMEOUT_MS
            )
            raise_for(answer.error_code, self._group_id)

    async def _leave(self) -> None:
        identity = MemberIdentity(member_id=self._member_id, reason="the registry stops")
        request = LeaveGroupRequest(group_id=GroupId(self._group_id), members=(identity,))
        try:
            async with asyncio.timeout(2):
                await (await self._connection()).request(request, LeaveGroupResponse)
        except (KafkaError, ClientError, TimeoutError) as error:
            log.info("the group could not be left: %s", error)
