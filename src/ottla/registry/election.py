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
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from ottla.client.cluster import Cluster
from ottla.client.group_membership import GroupMembership, GroupOptions

log = logging.getLogger(__name__)

GROUP_ID = "schema-registry"
PROTOCOL_TYPE = "sr"
PROTOCOL = "v0"
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
        self._group = GroupMembership(cluster, GroupOptions(group_id, PROTOCOL_TYPE, PROTOCOL), self)

    @property
    def is_leader(self) -> bool:
        """Whether this process is the one that writes."""
        return self.leader_url == self.url

    async def __aenter__(self) -> Self:
        self._group.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._group.stop()

    # The group: see GroupEvents in client/group_membership.py.

    async def group_metadata(self) -> bytes:
        """Return where this process is."""
        return _encoded(identity_of(self.url))

    async def assign(self, members: Mapping[str, bytes], leader: str) -> dict[str, bytes]:
        """Name the elected writer to all members."""
        elected = elect({member: json.loads(metadata) for member, metadata in members.items()})
        return dict.fromkeys(members, _encoded(elected))

    async def on_assigned(self, assignment: bytes, generation: int, member_id: str) -> bool:
        """Note who is elected."""
        elected = json.loads(assignment)
        if elected.get("error") == DUPLICATE_URLS:
            log.error("several registry processes say that they are at the same URL: see --advertise")
            self._set_leader(None)
            return False
        identity = elected.get("master_identity")
        self._set_leader(None if identity is None else url_of(identity))
        return False

    async def on_rejoin(self) -> None:
        """Forget who is elected: without a confirmed election this process must not write."""
        self._set_leader(None)

    async def on_lost(self) -> None:
        """Forget who is elected."""
        self._set_leader(None)

    def _set_leader(self, leader_url: str | None) -> None:
        if leader_url != self.leader_url:
            log.info("the elected writer of schemas is %s", leader_url or "unknown")
        self.leader_url = leader_url
        self.changed.set()


def _encoded(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()
