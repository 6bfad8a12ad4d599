"""Members of classic groups by hand: every request as bytes, every answer looked at."""

from __future__ import annotations

import datetime
from typing import Any, Self

from kio.schema.errors import ErrorCode
from tests.integration.wire import Wire

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.consumer_protocol import Subscription, encode_assignment, encode_subscription

SESSION_MS = 30_000
NOBODY = ""


def ms(value: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=value)


class WireMember:
    """One member on one connection; `member_id` and `generation` are those of the last response."""

    def __init__(self, address: str, group: str, topic: str = "orders") -> None:
        self.address = address
        self.wire = Wire(address)
        self.group = group
        self.topic = topic
        self.member_id = NOBODY
        self.generation = -1
        self._pending: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.__exit__()

    def reconnect(self) -> None:
        """Go on over a new connection."""
        self.wire.__exit__()
        self.wire = Wire(self.address)

    def send_join(self, version: int = 9, **fields: Any) -> None:
        """Send a JoinGroup, which is answered when the rebalance is done."""
        wanted = {
            "group_id": self.group,
            "session_timeout": ms(SESSION_MS),
            "rebalance_timeout": ms(SESSION_MS),
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": encode_subscription(Subscription((self.topic,)), 0)}],
            **fields,
        }
        self._pending = version, self.wire.send(ApiKey.JOIN_GROUP, version, **wanted)

    def joined(self) -> Any:
        """Return the answer to `send_join`."""
        assert self._pending is not None
        version, correlation_id = self._pending
        answer = self.wire.receive(ApiKey.JOIN_GROUP, version, correlation_id)
        self._pending = None
        if answer.error_code in (ErrorCode.none, ErrorCode.member_id_required):
            self.member_id = answer.member_id
        if answer.error_code == ErrorCode.none:
            self.generation = answer.generation_id
        return answer

    def join(self, version: int = 9, **fields: Any) -> Any:
        """Join, with the second attempt that members need to know their id; return the last answer."""
        self.send_join(version, **fields)
        answer = self.joined()
        if answer.error_code == ErrorCode.member_id_required:
            fields.pop("member_id", None)
            self.send_join(version, **fields)
            answer = self.joined()
        return answer

    def sync(self, *assigned: WireMember, **fields: Any) -> Any:
        """Send a SyncGroup, which hands an empty assignment to these members; return the answer."""
        return self.wire.call(ApiKey.SYNC_GROUP, 5, **self.sync_fields(*assigned, **fields))

    def sync_fields(self, *assigned: WireMember, **fields: Any) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                {"member_id": each.member_id, "assignment": encode_assignment([])} for each in assigned
            ],
            **fields,
        }

    def heartbeat(self, **fields: Any) -> ErrorCode:
        wanted = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            **fields,
        }
        return self.wire.call(ApiKey.HEARTBEAT, 4, **wanted).error_code

    def leave(self, *member_ids: str, group: str | None = None) -> Any:
        """Take members out; return the whole answer."""
        members = [{"member_id": each} for each in member_ids]
        return self.wire.call(ApiKey.LEAVE_GROUP, 5, group_id=group or self.group, members=members)

    def commit(self, offsets: dict[tuple[str, int], int], version: int = 9, **fields: Any) -> list[ErrorCode]:
        """Commit as this member; return the codes, in the order of the offsets."""
        wanted = self.commit_fields(offsets, **fields)
        answer = self.wire.call(ApiKey.OFFSET_COMMIT, version, **wanted)
        return [topic.partitions[0].error_code for topic in answer.topics]

    def commit_fields(self, offsets: dict[tuple[str, int], int], **fields: Any) -> dict[str, Any]:
        metadata = fields.pop("metadata", "")
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": metadata,
                    }
                ],
            }
            for (topic, partition), offset in offsets.items()
        ]
        return {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "topics": topics,
            **fields,
        }

    def committed(self) -> dict[int, tuple[int, str]]:
        """Return what the group has committed in its topic: offset and metadata by partition."""
        group = {"group_id": self.group, "topics": None, "member_epoch": -1}
        (answer,) = self.wire.call(ApiKey.OFFSET_FETCH, 9, groups=[group]).groups
        assert answer.error_code == ErrorCode.none, answer
        return {
            each.partition_index: (each.committed_offset, each.metadata)
            for topic in answer.topics
            for each in topic.partitions
        }


def stable_group(address: str, group: str, topic: str = "orders") -> WireMember:
    """Return the only member of a group that is stable."""
    member = WireMember(address, group, topic)
    assert member.join().error_code == ErrorCode.none
    assert member.sync(member).error_code == ErrorCode.none
    return member
