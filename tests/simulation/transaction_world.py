"""A world in virtual time: transactional clients, their coordinators, their partitions, and a bad network.

Everything random comes from one seed. What must hold is in transaction_checks.py.
"""

from __future__ import annotations

from typing import Any

from tests.simulation.transaction_checks import CONTROLLER_WAIT_MS, SOURCE, Checks
from tests.simulation.transaction_client import (
    TIMEOUT_MS,
    Ask,
    Client,
    GivesUp,
    Pause,
    Prepared,
    Transaction,
    Work,
)
from tests.simulation.transaction_network import Answer, Network, NoAnswer
from tests.simulation.transaction_partition import DataPartition, SimPartition
from tests.simulation.transaction_shard import SimShard

from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import CommitRequest, OffsetToCommit
from ottla.coordinator.transaction.machine import TransactionMachine
from ottla.coordinator.transaction.record_codec import decode_record, encode_record
from ottla.coordinator.transaction.requests import WriteMarkers
from ottla.coordinator.transaction.transaction import Producer
from ottla.metadata.image import ClusterImage, TopicImage
from ottla.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    TransactionCoordinatorFenced,
)
from ottla.protocol.records.control import Marker

FAULTS = (0.1, 0.4, 1.0)
ABORT_MS = 200
CONFIG = BrokerConfig({"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(ABORT_MS)})
MARKER_RETRY_MS = 50
RUN_MS = 8_000
IMAGE = ClusterImage(topics={SOURCE: TopicImage(SOURCE, None, ())})  # type: ignore[arg-type]


class World:
    """Everybody, and what they have seen."""

    def __init__(self, seed: int, *, is_v2: bool, is_orderly: bool, clients: int = 3) -> None:
        self.network = Network(seed, FAULTS[seed % len(FAULTS)], is_orderly)
        self.data = [
            DataPartition(TopicPartition("data", index), self.network, self._verify) for index in range(3)
        ]
        state = SimPartition(TopicPartition("__transaction_state", 0), self.network)
        offsets = SimPartition(TopicPartition("__consumer_offsets", 0), self.network)
        self.offsets = SimShard(offsets, lambda: GroupMachine(CONFIG, IMAGE))
        self._marking: dict[str, object] = {}
        self.coordinator = SimShard(
            state,
            lambda: TransactionMachine(CONFIG),
            self._write_markers,
            encode=encode_record,
            decode=decode_record,
        )
        self.transactions: list[Transaction] = []
        self.prepared: dict[str, Prepared] = {}
        """What was decided elsewhere about the last prepared transaction of each transactional id."""
        self.all_prepared: list[Prepared] = []
        self._works: list[Work] = []
        self.is_v2 = is_v2
        self._is_over = False
        self._alive: dict[str, Client] = {}
        self._retired: set[str] = set()
        for index in range(clients):
            self._begin(f"c{index}", is_two_phase=is_v2 and index == 2)
        self._checks = Checks(self)
        self.network.after(0, self._hurt)

    # The run

    def run(self) -> None:
        """Let everything happen, heal, and check what came of it."""
        try:
            self._run_until(self.network.now_ms + RUN_MS)
            self.network.faults, self.network.is_orderly, self._is_over = 0, True, True
            self._run_until(self.network.now_ms + 3 * CONTROLLER_WAIT_MS)
            self._checks.check_the_end()
        finally:
            for work in self._works:
                work.close()

    def _run_until(self, until_ms: int) -> None:
        while self.network.run_next(until_ms):
            pass

    @property
    def history(self) -> object:
        """All that was done and read."""
        return self.transactions, self._checks.history

    def remember(self, prepared: Prepared) -> None:
        """Take note of a prepared transaction, outside of everything that can fail here."""
        self.prepared[prepared.transaction.owner] = prepared
        self.all_prepared.append(prepared)

    def is_current(self, client: Client) -> bool:
        """Return whether a client is the last incarnation of its transactional id."""
        return self._alive.get(client.name) is client

    def new_transaction(self, owner: str) -> Transaction:
        """Take note of a transaction that begins."""
        number = sum(each.owner == owner for each in self.transactions)
        self.transactions.append(Transaction(owner, number))
        return self.transactions[-1]

    # Clients

    def _begin(self, name: str, is_two_phase: bool) -> None:
        client = Client(self, name, self.is_v2, is_two_phase)
        self._alive[name] = client
        self._works.append(client.run())
        self._resume(client, self._works[-1], None)

    def _resume(self, client: Client, work: Any, answer: Any) -> None:
        """Pass a response to a client, unless it crashes, or is replaced by its next incarnation."""
        is_current = self.is_current(client)
        if self._is_over and client.is_at_work:
            if is_current:
                self._retire(client)
            return
        if is_current and not self._is_over and self.network.happens(self.network.faults * 0.015):
            self._replace(client)
            if self.network.happens(0.6):
                return  # it is dead; else it is a zombie
        try:
            asked = work.send(answer)
        except (GivesUp, StopIteration):
            if self.is_current(client):
                self._replace(client)
            return
        if isinstance(asked, Pause):
            self.network.after(asked.ms, lambda: self._resume(client, work, None))
        else:
            assert isinstance(asked, Ask)
            self.network.call(asked.handle, lambda response: self._resume(client, work, response))

    def _retire(self, client: Client) -> None:
        """Start no new transactions; but prepared ones wait to be ended."""
        self._alive.pop(client.name)
        if client.is_two_phase and client.name not in self._retired:
            self._retired.add(client.name)
            self._begin(client.name, is_two_phase=True)

    def _replace(self, client: Client) -> None:
        self._alive.pop(client.name, None)
        delay_ms = self.network.random.choice((0, 20, 500, 2 * TIMEOUT_MS))
        self.network.after(delay_ms, lambda: self._begin(client.name, client.is_two_phase))

    def commit_offset(
        self, name: str, producer: tuple[int, int], number: int, adds: bool, answer: Answer
    ) -> None:
        """Handle TxnOffsetCommit: verify as `api/txn_offset_commit.py` does, then ask the group."""
        if self.offsets.is_loading:
            answer(CoordinatorLoadInProgress("one moment"))
            return
        log = self.offsets.partition.log
        offset = OffsetToCommit(0, number, -1, "")
        request = CommitRequest(
            name, "", None, -1, ((SOURCE, (offset,)),), knows_group_not_found=False, producer=producer
        )

        def commit() -> None:
            self.offsets.call(
                GroupMachine.commit,
                request,
                answer=lambda done: answer(done if isinstance(done, KafkaError) else None),
            )

        def verified(refusal: KafkaError | None) -> None:
            if refusal is not None:
                answer(refusal)
            elif self.offsets.is_loading or self.offsets.partition.log is not log:
                answer(NotCoordinator("it has crashed meanwhile"))
            else:
                begun.confirm()
                commit()

        if log.producers.has_open_transaction(*producer):
            commit()
            return
        begun = log.verifications.begin(*producer, -1, has_epoch_per_transaction=adds)
        self._verify(name, producer, self.offsets.partition.topic_partition, adds, verified)

    # Between brokers

    def _verify(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        place: TopicPartition,
        adds: bool,
        answer: Answer,
    ) -> None:
        """Ask the coordinator whether a partition is in a transaction, or have it added."""
        who, wanted = Producer(*producer), frozenset([place])
        event = TransactionMachine.add_partitions if adds else TransactionMachine.verify

        def heard(response: Any) -> None:
            if isinstance(response, NoAnswer):
                answer(NotEnoughReplicas("the coordinator does not answer"))
            elif isinstance(response, ConcurrentTransactions | CoordinatorLoadInProgress | NotCoordinator):
                answer(NotEnoughReplicas(str(response)))
            elif isinstance(response, KafkaError):
                answer(response)
            else:
                answer(None if adds else response[place])

        self.network.call(
            lambda reply: self.coordinator.call(event, transactional_id, who, wanted, answer=reply), heard
        )

    def _write_markers(self, message: object) -> None:
        """Write markers until all partitions have them, as `coordinator/markers.py` does."""
        assert isinstance(message, WriteMarkers)
        epoch, missing, task = self.coordinator.epoch, set(message.partitions), object()
        self._marking[message.transactional_id] = task
        marker = Marker(
            *message.producer, message.is_commit, coordinator_epoch=epoch, transaction_version=message.version
        )

        def attempt(place: TopicPartition) -> None:
            is_current = self._marking.get(message.transactional_id) is task
            if is_current and epoch == self.coordinator.epoch and place in missing:
                self.network.call(
                    lambda reply: self._mark(place, marker, reply), lambda error: marked(place, error)
                )

        def marked(place: TopicPartition, error: Any) -> None:
            if error is None:
                missing.discard(place)
            elif isinstance(error, TransactionCoordinatorFenced):
                return
            else:
                self.network.after(MARKER_RETRY_MS, lambda: attempt(place))
            if not missing and epoch == self.coordinator.epoch and not self.coordinator.is_loading:
                self.coordinator.run_event(TransactionMachine.complete, message)

        for place in sorted(missing):
            attempt(place)

    def _mark(self, place: TopicPartition, marker: Marker, reply: Answer) -> None:
        if place == self.offsets.partition.topic_partition:
            self.offsets.call(GroupMachine.end_transaction, marker, answer=reply)
        else:
            self.data[place.partition].write_marker(marker, reply)

    # Faults

    def _hurt(self) -> None:
        """Hurt somebody, most of the time in the middle of something."""
        random = self.network.random
        if self._is_over:
            return
        victims: list[Any] = [*self.data, self.coordinator, self.coordinator, self.offsets]
        if random.random() < 0.9:
            victims = [each for each in victims if self._partition_of(each).is_busy]
        if not victims:
            self.network.after(2, self._hurt)
            return
        self.network.after(random.randint(300, int(2_000 / self.network.faults)), self._hurt)
        victim = random.choice(victims)
        if random.random() < 0.5:
            self._partition_of(victim).fail_over()
        else:
            self._partition_of(victim).crash()
        if isinstance(victim, SimShard):
            victim.fail_over()

    @staticmethod
    def _partition_of(victim: Any) -> SimPartition:
        return victim if isinstance(victim, SimPartition) else victim.partition
