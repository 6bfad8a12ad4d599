"""The groups of one partition of `__consumer_offsets`, as a pure state machine.

Requests and timers come in as calls; records, changes, replies and timers go out as a `Step`. A handler
decides and changes nothing: it raises a `KafkaError`, or returns a step. `replay` and `apply` change the
state and decide nothing. Loading a partition is `replay` for each of its records, then `loaded`.

This file dispatches; the rules are in classic/, consumer/, migration*.py and offsets.py. It deals with groups
of both protocols through the interface in group.py.
"""

from __future__ import annotations

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import NOTHING, InTransaction, Reply, SetTimer, Step, TimerKey, reply_only
from ottla.coordinator.group import offsets
from ottla.coordinator.group.classic.events import ClassicGroupEvents, join_new_group
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.record import describe, restore
from ottla.coordinator.group.classic_in_consumer_group import ConsumerGroupEvents
from ottla.coordinator.group.consumer import events
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.group import Group, GroupEvents
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.group.records import GroupKey, GroupValue, OffsetKey, OffsetValue, Record
from ottla.coordinator.group.requests import (
    CommitRequest,
    Committed,
    DescribedGroup,
    FetchedOffsets,
    FetchRequest,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    ListedGroup,
    SyncRequest,
    SyncResult,
)
from ottla.metadata.image import ClusterImage, ImageChanges
from ottla.protocol.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InvalidSessionTimeout,
    KafkaError,
    UnknownMemberId,
)
from ottla.protocol.records.control import Marker


class GroupMachine:
    """All groups of one partition, and their offsets."""

    def __init__(self, config: BrokerConfig, image: ClusterImage) -> None:
        self.config = config
        self.image = image
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()

    # Membership, classic protocol

    def join(self, now_ms: int, token: int, request: JoinRequest) -> Step[JoinResult]:
        """Let a member into the next generation; the reply is a `JoinResult`, and may come much later."""
        config = self.config
        shortest_ms, longest_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not shortest_ms <= request.session_timeout_ms <= longest_ms:
            raise InvalidSessionTimeout(
                f"{request.session_timeout_ms} ms is not between {shortest_ms} and {longest_ms} ms"
            )
        group = self.groups.get(request.group_id)
        if group is None or (isinstance(group, ConsumerGroup) and group.is_empty):
            if request.member_id:
                raise UnknownMemberId(f"{request.group_id} has no member {request.member_id}")
            # A group without members may as well be of the other protocol.
            tombstones = () if group is None else group.tombstones()
            return join_new_group(now_ms, self.config, token, request, tombstones)
        return self._events(now_ms, group).join(token, request)

    def sync(self, now_ms: int, token: int, request: SyncRequest) -> Step[SyncResult]:
        """Return a member's assignment; the reply may come later."""
        return self._events(now_ms, self._with_members(request.group_id)).sync(token, request)

    def heartbeat(
        self,
        now_ms: int,
        token: int,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
    ) -> Step[None]:
        """Extend a member's session; the reply is RebalanceInProgress if it has to join again."""
        events = self._events(now_ms, self._with_members(group_id))
        return events.heartbeat(token, member_id, instance_id, generation_id)

    def leave(
        self, now_ms: int, token: int, group_id: str, leavers: tuple[LeavingMember, ...]
    ) -> Step[LeaveResult]:
        """Remove members; the reply has the error of each that could not leave."""
        return self._events(now_ms, self._with_members(group_id)).leave(token, leavers)

    # Offsets

    def commit(self, now_ms: int, token: int, request: CommitRequest) -> Step[Committed]:
        """Commit offsets. In a classic group this also extends the member's session."""
        group = self.groups.get(request.group_id)
        if group is not None:
            group.check_commit(request)
        elif request.generation_id >= 0:
            unknown = GroupIdNotFound if request.knows_group_not_found else IllegalGeneration
            raise unknown(f"there is no group {request.group_id}")
        records, committed = self.offsets.commit(now_ms, request, self.config)
        if request.producer is not None:
            pending = tuple(InTransaction(*request.producer, each) for each in records)
            return Step(pending, replies=(Reply(token, committed),))
        timers = () if group is None else group.commit_timers(request, now_ms)
        return Step(records, replies=(Reply(token, committed),), timers=timers)

    def fetch(self, now_ms: int, token: int, request: FetchRequest) -> Step[FetchedOffsets]:
        """Return a group's offsets; a group that does not exist has none."""
        group = self.groups.get(request.group_id)
        if group is not None:
            group.check_fetch(request.member_id, request.member_epoch)
        return reply_only(token, self.offsets.fetch(request))

    def end_transaction(self, now_ms: int, token: int, marker: Marker) -> Step[None]:
        """Commit or drop the offsets that a producer has pending in its transaction."""
        return Step((marker,), replies=(Reply(token, None),))

    def delete_offsets(
        self, now_ms: int, token: int, group_id: str, partitions: tuple[tuple[str, int], ...]
    ) -> Step[tuple[KafkaError | None, ...]]:
        """Delete offsets that no member uses; the reply has the error of each that cannot be deleted."""
        group = self._group(group_id)
        group.check_delete_offsets()
        records, results = self.offsets.delete(group, partitions)
        return Step(records, replies=(Reply(token, results),))

    # Groups

    def delete(self, now_ms: int, token: int, group_id: str) -> Step[None]:
        """Delete a group and its offsets; the reply is None."""
        group = self._group(group_id)
        group.check_delete()
        records = (*self.offsets.delete_all(group_id), *group.tombstones())
        return Step(records, replies=(Reply(token, None),))

    def describe(self, now_ms: int, token: int, group_id: str) -> Step[DescribedGroup]:
        """Describe a classic group."""
        group = self._group(group_id)
        if not isinstance(group, ClassicGroup):
            raise GroupIdNotFound(f"{group_id} is not a classic group")
        return reply_only(token, describe(group))

    def list_groups(
        self, now_ms: int, token: int, states: frozenset[str], types: frozenset[str]
    ) -> Step[tuple[ListedGroup, ...]]:
        """List the groups in some states and of some types (in lower case), or all."""
        listed = tuple(group.listed() for group in self.groups.values())
        if states:
            listed = tuple(each for each in listed if each.state.lower() in states)
        if types:
            listed = tuple(each for each in listed if each.type in types)
        return reply_only(token, listed)

    # Time, and the rest of the cluster

    def loaded(self, now_ms: int) -> Step[None]:
        """Begin to coordinate: all sessions start anew."""
        check_ms = now_ms + self.config.offsets_retention_check_interval_ms
        timers = [SetTimer(offsets.EXPIRE_TIMER, check_ms)]
        for group in self.groups.values():
            timers.extend(self._events(now_ms, group).session_timers())
        # The last coordinator may have failed before it got round to it.
        gone = self.offsets.topics() - self.image.topics.keys()
        timers.extend(offsets.deleted_topic_timer(topic, now_ms) for topic in gone)
        return Step(timers=tuple(timers))

    def new_image(self, now_ms: int, image: ClusterImage, difference: ImageChanges) -> Step[None]:
        """Apply a new cluster image: offsets of deleted topics are deleted."""
        timers = tuple(offsets.deleted_topic_timer(topic.name, now_ms) for topic in difference.deleted)
        return Step(changes=(image,), timers=timers)

    def on_timer(self, now_ms: int, key: TimerKey) -> Step[None]:
        """Handle a timer that has run out."""
        match key:
            case ("session" | "revoke" | "rejoin" | "collect" | "join" | "sync" as timer, group_id, *member):
                group = self.groups.get(group_id)
                if group is None:
                    return NOTHING  # deleted in the meantime
                return self._events(now_ms, group).on_timer(timer, "".join(member))
            case ("expire", *after):
                return offsets.expire(now_ms, "".join(after), self.groups, self.offsets, self.config)
            case ("topic_deleted", topic, deleted_ms):
                return offsets.delete_offsets_of_topic(now_ms, topic, int(deleted_ms), self.offsets)
        raise ValueError(f"unknown timer {key}")

    # State

    def replay(self, record: Record | InTransaction | Marker) -> None:
        """Apply one record of the log."""
        if isinstance(record, Marker):
            for group_id in self.offsets.end_transaction(record.producer_id, record.is_commit):
                self._keep_offsets_of(group_id)
            return
        if isinstance(record, InTransaction):
            self._replay_pending(record)
            return
        key, value = record
        match key:
            case OffsetKey() if value is None or isinstance(value, OffsetValue):
                self.offsets.replay(key, value)
                if value is not None:
                    self._keep_offsets_of(key.group_id)
            case GroupKey() if isinstance(value, GroupValue):
                self.groups[key.group_id] = restore(key.group_id, value)
            case GroupKey():
                if isinstance(self.groups.get(key.group_id), ClassicGroup):
                    del self.groups[key.group_id]
            case _:
                events.replay(self.groups, key, value)

    def _replay_pending(self, pending: InTransaction) -> None:
        if isinstance(pending.record, Record):
            key, value = pending.record
            if isinstance(key, OffsetKey) and (value is None or isinstance(value, OffsetValue)):
                self.offsets.pending.add(pending.producer_id, key, value)

    def _keep_offsets_of(self, group_id: str) -> None:
        """Create the group of offsets, if a client commits without being a member of one."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)

    def apply(self, change: object) -> None:
        """Apply one change that is not written to the log."""
        match change:
            case ClassicGroup() | ConsumerGroup():
                self.groups[change.group_id] = change
            case ClusterImage():
                self.image = change
            case _:
                raise ValueError(f"unknown change {change}")

    # How

    def _group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {group_id}")
        return group

    def _with_members(self, group_id: str) -> Group:
        """Return a group whose members may send requests."""
        group = self.groups.get(group_id)
        if group is None or (isinstance(group, ConsumerGroup) and group.is_empty):
            raise UnknownMemberId(f"there is no group {group_id} with members")
        return group

    def _events(self, now_ms: int, group: Group) -> GroupEvents:
        """Return what handles requests and timers of a group: the one place that distinguishes protocols."""
        if isinstance(group, ClassicGroup):
            return ClassicGroupEvents(group, now_ms, self.config)
        assert isinstance(group, ConsumerGroup)
        return ConsumerGroupEvents(group, now_ms, self.config, self.image)
