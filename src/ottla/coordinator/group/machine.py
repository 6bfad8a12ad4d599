"""The groups of one partition of `__consumer_offsets`, as a pure state machine.

Requests and timers come in as calls; records, changes, replies and timers go out as a `Step`. A handler
decides and changes nothing: it raises a `KafkaError`, or returns a step. `replay` and `apply` change the
state and decide nothing. Loading a partition is `replay` for each of its records, then `loaded`.

This file knows which file decides what; the rules themselves are in classic_*.py, consumer_*.py,
migration_*.py, offsets.py and expiry.py.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.group_keys import GroupConfig
from ottla.coordinator.effects import NOTHING, InTransaction, Reply, SetTimer, Step, TimerKey
from ottla.coordinator.group import migration_classic, offsets
from ottla.coordinator.group.classic import join, members, rebalance
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.record import describe, restore
from ottla.coordinator.group.classic.update import GroupUpdate
from ottla.coordinator.group.consumer import events, leave
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.update import ConsumerGroupUpdate
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.group.records import GroupKey, GroupValue, OffsetKey, OffsetValue, Record
from ottla.coordinator.group.requests import CommitRequest, FetchRequest, JoinRequest, Leaver, SyncRequest
from ottla.metadata.image import ClusterImage, ImageChanges
from ottla.protocol.errors import GroupIdNotFound, IllegalGeneration, InvalidSessionTimeout, UnknownMemberId
from ottla.protocol.records.control import Marker


class GroupMachine:
    """All groups of one partition, and their offsets."""

    def __init__(self, config: BrokerConfig, image: ClusterImage) -> None:
        self.config = config
        self.image = image
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()

    # Membership, classic protocol

    def join(self, now_ms: int, token: int, request: JoinRequest) -> Step:
        """Let a member into the next generation; the reply is a `Joined`, and may come much later."""
        config = self.config
        shortest_ms, longest_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not shortest_ms <= request.session_timeout_ms <= longest_ms:
            raise InvalidSessionTimeout(
                f"{request.session_timeout_ms} ms is not between {shortest_ms} and {longest_ms} ms"
            )
        step = self._in_consumers(
            now_ms, request.group_id, lambda turn: migration_classic.join(turn, token, request)
        )
        if step is not None:
            return step
        turn = self._turn_to_join(now_ms, request)
        join.join(turn, token, request)
        return turn.step()

    def sync(self, now_ms: int, token: int, request: SyncRequest) -> Step:
        """Give a member its assignment; the reply is a `Synced`, and may come later."""
        step = self._in_consumers(
            now_ms, request.group_id, lambda turn: migration_classic.sync(turn, token, request)
        )
        if step is not None:
            return step
        turn = GroupUpdate(self._classic(request.group_id), now_ms, self.config)
        members.sync(turn, token, request)
        return turn.step()

    def heartbeat(
        self,
        now_ms: int,
        token: int,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
    ) -> Step:
        """Extend a member's session; the reply is None, or RebalanceInProgress."""
        step = self._in_consumers(
            now_ms,
            group_id,
            lambda turn: migration_classic.heartbeat(turn, token, member_id, instance_id, generation_id),
        )
        if step is not None:
            return step
        group = self._classic(group_id)
        return members.heartbeat(group, now_ms, token, member_id, instance_id, generation_id)

    def leave(self, now_ms: int, token: int, group_id: str, leavers: tuple[Leaver, ...]) -> Step:
        """Take members out; the reply is a `Left`."""
        step = self._in_consumers(
            now_ms, group_id, lambda turn: migration_classic.leave(turn, token, leavers)
        )
        if step is not None:
            return step
        turn = GroupUpdate(self._classic(group_id), now_ms, self.config)
        members.leave(turn, token, leavers)
        return turn.step()

    # Offsets

    def commit(self, now_ms: int, token: int, request: CommitRequest) -> Step:
        """Keep offsets; the reply is a `Committed`. To a classic group it is also a sign of life."""
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
        timers: tuple[SetTimer, ...] = ()
        if isinstance(group, ClassicGroup) and request.member_id in group.members:
            timers = (members.session_timer(group, group.members[request.member_id], now_ms),)
        return Step(records, replies=(Reply(token, committed),), timers=timers)

    def fetch(self, now_ms: int, token: int, request: FetchRequest) -> Step:
        """Tell a group's offsets; the reply is `FetchedOffsets`. A group that does not exist has none."""
        group = self.groups.get(request.group_id)
        if group is not None:
            group.check_fetch(request.member_id, request.member_epoch)
        return _reply(token, self.offsets.fetch(request))

    def end_transaction(self, now_ms: int, token: int, marker: Marker) -> Step:
        """Let what a producer has committed in its transaction count, or forget it; the reply is None."""
        return Step((marker,), replies=(Reply(token, None),))

    def delete_offsets(
        self, now_ms: int, token: int, group_id: str, partitions: tuple[tuple[str, int], ...]
    ) -> Step:
        """Forget offsets that nobody uses; the reply is what stands against it, one by one."""
        group = self._group(group_id)
        group.check_delete_offsets()
        records, results = self.offsets.delete(group, partitions)
        return Step(records, replies=(Reply(token, results),))

    # Groups

    def delete(self, now_ms: int, token: int, group_id: str) -> Step:
        """Delete a group and its offsets; the reply is None."""
        group = self._group(group_id)
        group.check_delete()
        records = (*self.offsets.delete_all(group_id), *group.tombstones())
        return Step(records, replies=(Reply(token, None),))

    def describe(self, now_ms: int, token: int, group_id: str) -> Step:
        """Tell everything about a classic group; the reply is a `DescribedGroup`."""
        group = self._group(group_id)
        if not isinstance(group, ClassicGroup):
            raise GroupIdNotFound(f"{group_id} is not a classic group")
        return _reply(token, describe(group))

    def list_groups(self, now_ms: int, token: int, states: frozenset[str], types: frozenset[str]) -> Step:
        """List the groups in some states and of some types (in lower case), or all."""
        listed = tuple(group.listed() for group in self.groups.values())
        if states:
            listed = tuple(each for each in listed if each.state.lower() in states)
        if types:
            listed = tuple(each for each in listed if each.type in types)
        return _reply(token, listed)

    # Time, and the rest of the cluster

    def loaded(self, now_ms: int) -> Step:
        """Begin to coordinate: every member's session starts anew."""
        check_ms = now_ms + self.config.offsets_retention_check_interval_ms
        timers = [SetTimer(offsets.KEY, check_ms)]
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                timers.extend(members.session_timer(group, each, now_ms) for each in group.members.values())
            elif isinstance(group, ConsumerGroup):
                own = GroupConfig.of(self.image.group_overrides(group.group_id), self.config)
                timers.extend(leave.session_timers(group, now_ms, own))
        # The last coordinator may have failed before it got round to it.
        gone = self.offsets.topics() - self.image.topics.keys()
        timers.extend(offsets.forget_timer(topic, now_ms) for topic in gone)
        return Step(timers=tuple(timers))

    def new_image(self, now_ms: int, image: ClusterImage, difference: ImageChanges) -> Step:
        """Follow the cluster: offsets of deleted topics are forgotten."""
        timers = tuple(offsets.forget_timer(topic.name, now_ms) for topic in difference.deleted)
        return Step(changes=(image,), timers=timers)

    def on_timer(self, now_ms: int, key: TimerKey) -> Step:
        """Handle a timer that has run out."""
        match key:
            case ("session" | "revoke" | "rejoin" | "collect" as timer, group_id, member_id) if isinstance(
                self.groups.get(group_id), ConsumerGroup
            ):
                step = self._in_consumers(
                    now_ms, group_id, lambda turn: leave.end_of_time(turn, timer, member_id)
                )
                return step or NOTHING
            case ("session", group_id, member_id):
                return self._in_turn(now_ms, group_id, lambda turn: members.end_session(turn, member_id))
            case ("join", group_id):
                return self._in_turn(now_ms, group_id, rebalance.end_join_phase)
            case ("sync", group_id):
                return self._in_turn(now_ms, group_id, rebalance.end_sync_phase)
            case ("expire", *after):
                return offsets.expire(now_ms, "".join(after), self.groups, self.offsets, self.config)
            case ("forget", topic, deleted_ms):
                return offsets.forget(now_ms, topic, int(deleted_ms), self.offsets)
        raise ValueError(f"nobody knows the timer {key}")

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
        """Let a group exist, be it of somebody who assigns partitions without one."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)

    def apply(self, change: object) -> None:
        """Put something changed in its place that need not survive."""
        match change:
            case ClassicGroup() | ConsumerGroup():
                self.groups[change.group_id] = change
            case ClusterImage():
                self.image = change
            case _:
                raise ValueError(f"nobody knows the change {change}")

    # How

    def _group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {group_id}")
        return group

    def _classic(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownMemberId(f"there is no classic group {group_id}")
        return group

    def _turn_to_join(self, now_ms: int, request: JoinRequest) -> GroupUpdate:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not request.member_id:
            # It has no members, so it may as well be of the other protocol.
            turn = GroupUpdate.of_new_group(request.group_id, now_ms, self.config)
            turn.records[:0] = group.tombstones()
            return turn
        if request.member_id or group is not None:
            return GroupUpdate(self._classic(request.group_id), now_ms, self.config)
        return GroupUpdate.of_new_group(request.group_id, now_ms, self.config)

    def _in_consumers(
        self, now_ms: int, group_id: str, handle: Callable[[ConsumerGroupUpdate], None]
    ) -> Step | None:
        """Return the step of an event on a consumer group; None if there is none, or nobody is in it."""
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or not group.members:
            return None
        turn = ConsumerGroupUpdate(group, now_ms, self.config, self.image)
        handle(turn)
        return turn.step()

    def _in_turn(self, now_ms: int, group_id: str, handle: Callable[[GroupUpdate], None]) -> Step:
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return NOTHING  # deleted in the meantime
        turn = GroupUpdate(group, now_ms, self.config)
        handle(turn)
        return turn.step()


def _reply(token: int, response: object) -> Step:
    return Step(replies=(Reply(token, response),))
