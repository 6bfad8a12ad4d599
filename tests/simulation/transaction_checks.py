"""What the world of transactions promises, checked all the time and at the end.

- A transaction is read, in all partitions and with its offset, or in none of them, as acknowledged.
- Nothing is read of a transaction whose client has not asked for a commit.
- Every record is read once, and the last stable offset never goes back.
- No transaction is open for longer than its timeout, unless it is prepared; nothing hangs in any partition.
- What is prepared ends as it was decided elsewhere.
- The state of every coordinator is what its log says.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.transaction_client import TIMEOUT_MS, Prepared, Transaction

from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import OffsetValue
from ottla.coordinator.group.requests import FetchRequest
from ottla.coordinator.transaction.transaction import State

if TYPE_CHECKING:
    from tests.simulation.transaction_world import World

CHECK_MS = 25
CONTROLLER_WAIT_MS = TIMEOUT_MS + 3_000
"""How long a transaction may be open: with its timeout, the time of two failovers, and lost markers."""
SOURCE = "source"


class Checks:
    """Reads on in every partition, as consumers of committed records do."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._positions = [0] * len(world.data)
        self._stable = [0] * len(world.data)
        self._read: dict[str, tuple[int, int]] = {}
        world.network.after(CHECK_MS, self._look)

    @property
    def history(self) -> object:
        """All that was read."""
        return self._positions, self._read

    def _look(self) -> None:
        self._world.network.after(CHECK_MS, self._look)
        for index, partition in enumerate(self._world.data):
            stable = partition.last_stable_offset
            if stable is not None:
                before = self._stable[index]
                assert stable >= before, f"the last stable offset of {index} went back: {before}, {stable}"
                self._stable[index] = stable
            found, self._positions[index] = partition.read_committed(self._positions[index])
            for offset, value in found.items():
                assert value not in self._read, f"{value} is at {self._read[value]} and at {(index, offset)}"
                self._read[value] = index, offset
                transaction = self._transaction_of(value)
                assert transaction.may_count, f"{value} was read, its transaction is {transaction.outcome}"
        self._check_coordinator()
        self._check_offsets()

    def _transaction_of(self, value: str) -> Transaction:
        owner, number, *_ = value.split("/")
        named = (owner, int(number))
        return next(each for each in self._world.transactions if (each.owner, each.number) == named)

    def _check_coordinator(self) -> None:
        coordinator = self._world.coordinator
        if coordinator.is_loading:
            return
        for name, found in coordinator.machine.open.items():
            if found.state == State.ONGOING and not found.is_prepared:
                open_ms = self._world.network.now_ms - found.start_ms
                assert open_ms <= CONTROLLER_WAIT_MS, f"the transaction of {name} is open since {open_ms} ms"

    def _check_offsets(self) -> None:
        for name in sorted({each.owner for each in self._world.transactions}):
            request = FetchRequest(name, None, must_be_stable=True)
            self._world.offsets.call(GroupMachine.fetch, request, answer=partial(self._check_fetched, name))

    def _check_fetched(self, name: str, response: Any) -> None:
        for _, partitions in response if isinstance(response, tuple) else ():
            for _, value in partitions:
                if isinstance(value, OffsetValue):
                    transaction = self._transaction_of(f"{name}/{value.offset}")
                    assert transaction.may_count, f"the offset of {transaction} counts"

    # The end

    def check_the_end(self) -> None:
        """See that everything has ended, and how."""
        world = self._world
        world.coordinator.check()
        world.offsets.check()
        assert not world.coordinator.machine.open, f"open forever: {world.coordinator.machine.open}"
        for partition in [*world.data, world.offsets.partition]:
            hanging = len(partition.log.producers.transactions)
            assert not hanging, f"{hanging} transactions hang in {partition.topic_partition}"
        for index, partition in enumerate(world.data):
            assert self._positions[index] == partition.log.log_end_offset, f"readers of {index} are held back"
        for transaction in world.transactions:
            self._check_transaction(transaction)
        for prepared in world.all_prepared:
            self._check_prepared(prepared)

    def _check_transaction(self, transaction: Transaction) -> None:
        wanted = set(transaction.all_values)
        found = wanted & self._read.keys()
        assert found in (set(), wanted), f"torn: {transaction}: {sorted(wanted - found)} are missing"
        if transaction.must_count:
            assert found == wanted, f"lost: {transaction}"
        if transaction.offset is None:
            return
        value = self._world.offsets.machine.offsets.of_group(transaction.owner).get(SOURCE, {}).get(0)
        last = -1 if value is None else value.offset
        if transaction.must_count or (wanted and found):
            assert last >= transaction.offset, f"the offset of {transaction} is lost: it is {last}"
        elif last == transaction.offset:
            assert found == wanted, f"torn: the offset of {transaction} counts, its records do not"

    def _check_prepared(self, prepared: Prepared) -> None:
        wanted = set(prepared.transaction.all_values)
        found = wanted & self._read.keys()
        assert found == (wanted if prepared.commit else set()), f"not as it was decided: {prepared}"
