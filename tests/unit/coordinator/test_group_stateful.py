"""Whatever is asked of a group machine in whatever order: its state is that of its log."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from tests.unit.coordinator.group_table import Table, subscription

from ottla.coordinator.group.classic.group import ClassicGroup, State
from ottla.coordinator.group.classic.record import record_of
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import CommitRequest, JoinResult, LeavingMember, OffsetToCommit
from ottla.protocol.errors import MemberIdRequired

groups = st.sampled_from(["g", "h"])
instances = st.sampled_from([None, None, "i1", "i2"])
protocols = st.sampled_from(
    [
        (("range", subscription("orders")),),
        (("range", subscription("orders")), ("sticky", subscription("payments"))),
        (("sticky", b"not a subscription"),),
    ]
)


class Groups(RuleBasedStateMachine):
    """Members of two groups, at random."""

    members = Bundle("members")

    @initialize(max_size=st.integers(1, 4))
    def start(self, max_size: int) -> None:
        self.table = Table(group_max_size=max_size, group_initial_rebalance_delay_ms=100)
        self.tokens: list[int] = []

    def _note(self, token: int) -> int:
        self.tokens.append(token)
        return token

    @rule(target=members, group_id=groups, instance_id=instances, wish=protocols, knows=st.booleans())
    def join(
        self, group_id: str, instance_id: str | None, wish: tuple[tuple[str, bytes], ...], knows: bool
    ) -> tuple[str, str, str | None]:
        token = self._note(
            self.table.send_join(
                group_id=group_id, instance_id=instance_id, protocols=wish, requires_member_id=knows
            )
        )
        answer = self.table.answers.get(token)
        if isinstance(answer, MemberIdRequired | JoinResult):
            return group_id, answer.member_id, instance_id
        group = self.table.machine.groups.get(group_id)
        ids = list(group.members) if isinstance(group, ClassicGroup) else []
        return group_id, ids[-1] if ids else "nobody", instance_id

    @rule(member=members, wish=protocols)
    def rejoin(self, member: tuple[str, str, str | None], wish: tuple[tuple[str, bytes], ...]) -> None:
        group_id, member_id, instance_id = member
        self._note(
            self.table.send_join(member_id, group_id=group_id, instance_id=instance_id, protocols=wish)
        )

    @rule(member=members)
    def sync(self, member: tuple[str, str, str | None]) -> None:
        group_id, member_id, instance_id = member
        group = self.table.machine.groups.get(group_id)
        generation_id = group.generation_id if isinstance(group, ClassicGroup) else 0
        self._note(
            self.table.send_sync(
                member_id,
                generation_id,
                group_id=group_id,
                instance_id=instance_id,
                assignments=((member_id, b"mine"),),
            )
        )

    @rule(member=members, is_current=st.booleans())
    def heartbeat(self, member: tuple[str, str, str | None], is_current: bool) -> None:
        group_id, member_id, instance_id = member
        group = self.table.machine.groups.get(group_id)
        generation_id = group.generation_id if is_current and isinstance(group, ClassicGroup) else 0
        arguments = (group_id, member_id, instance_id, generation_id)
        self._note(self.table.send(GroupMachine.heartbeat, *arguments))

    @rule(member=consumes(members))
    def leave(self, member: tuple[str, str, str | None]) -> None:
        group_id, member_id, instance_id = member
        self._note(self.table.send(GroupMachine.leave, group_id, (LeavingMember(member_id, instance_id),)))

    @rule(group_id=groups, topic=st.sampled_from(["orders", "payments"]), offset=st.integers(0, 9))
    def commit(self, group_id: str, topic: str, offset: int) -> None:
        topics = ((topic, (OffsetToCommit(0, offset, -1, ""),)),)
        self._note(self.table.send(GroupMachine.commit, CommitRequest(group_id, "", None, -1, topics)))

    @rule(group_id=groups)
    def delete(self, group_id: str) -> None:
        self._note(self.table.send(GroupMachine.delete_offsets, group_id, (("orders", 0),)))
        self._note(self.table.send(GroupMachine.delete, group_id))

    @rule(ms=st.sampled_from([1, 100, 1000, 10_000, 60_000, 8 * 24 * 3_600_000]))
    def wait(self, ms: int) -> None:
        self.table.wait(ms)

    @rule()
    def fail_over(self) -> None:
        unanswered = [token for token in self.tokens if token not in self.table.answers]
        self.table.restart()
        self.tokens = [token for token in self.tokens if token not in unanswered]

    @invariant()
    def the_state_is_that_of_the_log(self) -> None:
        replayed = GroupMachine(self.table.config, self.table.image)
        for record in self.table.log:
            replayed.replay(record)
        machine = self.table.machine
        assert machine.groups.keys() == replayed.groups.keys()
        for group_id, group in machine.groups.items():
            stored = replayed.groups[group_id]
            assert isinstance(group, ClassicGroup)
            assert isinstance(stored, ClassicGroup)
            assert machine.offsets.of_group(group_id) == replayed.offsets.of_group(group_id)
            if group.state in (State.EMPTY, State.STABLE):
                assert record_of(group) == record_of(stored)

    @invariant()
    def whoever_waits_is_known_to_its_group(self) -> None:
        waiting = {token for token in self.tokens if token not in self.table.answers}
        known = set()
        for group in self.table.machine.groups.values():
            assert isinstance(group, ClassicGroup)
            for member in group.members.values():
                known |= {member.join_token, member.sync_token}
        assert waiting <= known

    def teardown(self) -> None:
        if hasattr(self, "table"):
            self.table.wait(60 * 60_000)
            assert not [token for token in self.tokens if token not in self.table.answers]


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
