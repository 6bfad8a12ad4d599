"""Work for clients as they come, to be done while coordinators and leaders die, and what must come of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from itertools import count
from typing import Any, Self

from confluent_kafka import KafkaError, Message, Producer
from kio.schema.errors import ErrorCode
from tests.cluster.load import client_config
from tests.integration.clients import Client, Outgoing, Place, Refused, wait_until
from tests.integration.confluent_transactions import CONFLUENT
from tests.integration.members import Event, GroupConsumer, Library, Member, MemberOptions
from tests.integration.transactions import END
from tests.integration.wire import Wire

from ottla.coordinator.partitions import partition_for
from ottla.protocol.api_keys import ApiKey
from ottla.testing.cluster_process import ClusterProcess
from ottla.testing.ownership import Ownership

OFFSETS_PARTITIONS = 3
STATE_PARTITIONS = 3
WITHIN_S = 120.0
SEND_EVERY_S = 0.2
COMMIT_EVERY_S = 0.2
SESSION_MS = 60_000
"""So long that no member is lost on a busy machine: members resume where they were."""


def names_on_one_partition(prefix: str, partitions: int, wanted: int) -> list[str]:
    """Return names that have one coordinator."""
    names = (f"{prefix}.{number}" for number in count())
    first = next(names)
    found = [first]
    while len(found) < wanted:
        name = next(names)
        if partition_for(name, partitions) == partition_for(first, partitions):
            found.append(name)
    return found


def fill(bootstrap: str, topic: str, partitions: int, value: bytes) -> None:
    """Append one record to every partition."""
    append(bootstrap, topic, [[value]] * partitions)


def append(bootstrap: str, topic: str, values: list[list[bytes]]) -> None:
    """Append records to the partitions, to each its own."""
    producer = Producer(client_config(bootstrap, {"enable.idempotence": True}))
    for partition, of_partition in enumerate(values):
        for value in of_partition:
            producer.produce(topic, value, partition=partition)
    assert producer.flush(WITHIN_S) == 0


def read_committed(bootstrap: str, topic: str, partitions: int) -> list[list[bytes]]:
    """Say that this is the end, and return what is committed before it, by partition."""
    fill(bootstrap, topic, partitions, END)
    places = [(topic, partition) for partition in range(partitions)]
    with CONFLUENT.reader(bootstrap) as reader:
        found = reader.read_until_end(places)
    return [found[place] for place in places]


def committed(bootstrap: str, group: str, places: Iterable[Place]) -> list[int]:
    """Return a group's stable offsets, -1 for none."""
    found: list[int] = []
    with CONFLUENT.reader(bootstrap, group) as reader:

        def is_known() -> bool:
            try:
                found[:] = [-1 if (each := reader.committed(place)) is None else each for place in places]
            except Refused:
                return False  # the library tells of a coordinator that moves
            return True

        wait_until(is_known, f"the offsets of {group}")
    return found


def open_transactions(cluster: ClusterProcess) -> dict[str, str]:
    """Return the state of every transaction that has not ended; of a coordinator that loads, `loading`."""
    found = {}
    for number, broker in cluster.brokers.items():
        with Wire(broker.listen) as wire:
            answer = wire.call(ApiKey.LIST_TRANSACTIONS, 0, state_filters=(), producer_id_filters=())
        if answer.error_code != ErrorCode.none:
            found[f"broker {number}"] = answer.error_code.name
        for each in answer.transaction_states:
            if each.transaction_state not in ("Empty", "CompleteCommit", "CompleteAbort"):
                found[each.transactional_id] = each.transaction_state
    return found


class Source:
    """A topic that an idempotent producer fills, slowly, until it is left; then it is ended."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self.sent: list[list[bytes]] = [[] for _ in range(partitions)]
        self._bootstrap = bootstrap
        self._errors: list[KafkaError] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="source", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(WITHIN_S)
        assert not self._errors, self._errors[:3]
        fill(self._bootstrap, self.topic, len(self.sent), END)

    def _fill(self) -> None:
        config = {"enable.idempotence": True, "delivery.timeout.ms": int(WITHIN_S * 1000)}
        producer = Producer(client_config(self._bootstrap, config))
        while not self._stopping.wait(SEND_EVERY_S):
            for partition, sent in enumerate(self.sent):
                value = b"%d:%d" % (partition, len(sent))
                sent.append(value)
                producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            producer.poll(0)
        if producer.flush(WITHIN_S):
            self._errors.append(KafkaError(KafkaError._TIMED_OUT))

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._errors.append(error)


class IdempotentLoad:
    """One library's idempotent producer, which fills one partition; no error may come out of it."""

    def __init__(self, client: Client, topic: str, partition: int) -> None:
        self.sent: list[bytes] = []
        """What was acknowledged."""
        self._client = client
        self._topic = topic
        self._partition = partition
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send, name=f"{client.name} load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish requests in flight; raise the first error."""
        self._stopping.set()
        self._thread.join(WITHIN_S)
        self._check()

    def wait_for_more(self, records: int = 10) -> None:
        """Wait until more was acknowledged."""
        wanted = len(self.sent) + records

        def has_more() -> bool:
            self._check()
            return len(self.sent) >= wanted

        wait_until(has_more, f"{self._client.name} to have {records} more records acknowledged", WITHIN_S)

    def _check(self) -> None:
        if self._failure is not None:
            raise AssertionError(f"{self._client.name} failed") from self._failure

    def _send(self) -> None:
        try:
            with self._client.producer(idempotent=True) as producer:
                while not self._stopping.wait(SEND_EVERY_S):
                    first = len(self.sent)
                    values = [b"%d:%d" % (self._partition, first + number) for number in range(5)]
                    records = [Outgoing(value, partition=self._partition) for value in values]
                    producer.send(self._topic, records)
                    self.sent += values
            self._client.close()
        except BaseException as error:
            self._failure = error


class _Events(list[Event]):
    """A member's events, reported to the group as they occur."""

    def __init__(self, group: WatchedGroup, name: str, events: Iterable[Event]) -> None:
        super().__init__()
        self._group = group
        self._name = name
        for event in events:
            self.append(event)

    def append(self, event: Event) -> None:
        """Note who owns what from now on."""
        super().append(event)
        self._group.note(self._name, event)


class WatchedGroup:
    """Two members of one library, which commit what they have read; and all their events."""

    def __init__(self, library: Library, bootstrap: str, group: str, topic: str, partitions: int) -> None:
        self.name = library.name
        self.ownership = Ownership()
        self._library = library
        self._bootstrap = bootstrap
        self._group = group
        self._topic = topic
        self._places: list[Place] = [(topic, partition) for partition in range(partitions)]
        self._members: list[Member] = []
        self._everyone: list[Member] = []
        self._acknowledged: dict[Place, int] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._committers: list[threading.Thread] = []
        self._failure: BaseException | None = None

    def start(self) -> None:
        for number in range(2):
            name = f"{self.name}.{number}"
            self.ownership.join(name)
            member = Member(lambda name=name: self._consumer(name))  # type: ignore[misc]
            self._members.append(member)
            self._everyone.append(member)
            committer = threading.Thread(target=self._commit, args=(member,), daemon=True)
            committer.start()
            self._committers.append(committer)

    def stop(self) -> None:
        self._stopping.set()
        for committer in self._committers:
            committer.join(WITHIN_S)
        for member in self._members:
            member.stop()
        self._members = []
        self._check()

    def note(self, member: str, event: Event) -> None:
        """Record a member's events, until they all leave: not every library reports that."""
        with self._lock:
            if self._stopping.is_set():
                return
            now_s, owned = time.monotonic(), self.ownership.now[member]
            if event.what == "assigned":
                self.ownership.take(now_s, member, event.places - owned)
            else:
                self.ownership.give_up(now_s, member, event.places & owned)

    def wait_for_commits(self) -> None:
        """Wait until a later offset of every partition is committed."""
        before = dict(self._acknowledged)
        self._wait(
            lambda place: self._acknowledged.get(place, 0) > before.get(place, 0), "commit of every partition"
        )

    def wait_for_all(self, ends: list[int]) -> None:
        """Wait until everything is read and committed."""
        self._wait(lambda place: self._acknowledged.get(place, 0) >= ends[place[1]], "read everything")

    def lost_commits(self) -> list[str]:
        """Return which partitions have an older committed offset than was acknowledged."""
        found = dict(zip(self._places, committed(self._bootstrap, self._group, self._places), strict=True))
        return [
            f"{place}: {found[place]} is committed, {acknowledged} was acknowledged"
            for place, acknowledged in self._acknowledged.items()
            if found[place] < acknowledged
        ]

    def problems(self, sent: list[list[bytes]]) -> list[str]:
        """Return what the members were not given, or given otherwise than it was sent."""
        found: dict[Place, dict[int, bytes | None]] = {place: {} for place in self._places}
        for each in self._read:
            found[each.topic, each.partition][each.offset] = each.value
        return [
            f"{place} was not read as it was sent"
            for place, values in found.items()
            if [values.get(offset) for offset in range(len(sent[place[1]]))] != sent[place[1]]
        ]

    @property
    def _read(self) -> list[Any]:
        return [each for member in self._everyone for each in member.read]

    def _consumer(self, name: str) -> GroupConsumer:
        options = MemberOptions(self._group, (self._topic,), session_ms=SESSION_MS, client_id=name)
        consumer = self._library.consumer(self._bootstrap, options)
        consumer.events = _Events(self, name, consumer.events)
        return consumer

    def _commit(self, member: Member) -> None:
        """Commit what a member has read, all the time; what is refused is committed by the next one."""
        while not self._stopping.wait(COMMIT_EVERY_S):
            try:
                for place, offset in member.do(lambda consumer: self._commit_read(consumer, member)).items():
                    with self._lock:
                        self._acknowledged[place] = max(offset, self._acknowledged.get(place, 0))
            except (Refused, TimeoutError):
                continue
            except BaseException as error:
                self._failure = error
                return

    def _commit_read(self, consumer: GroupConsumer, member: Member) -> dict[Place, int]:
        """Commit how far a member has read the partitions that it owns, unless another was further."""
        owned = consumer.assignment()
        positions: dict[Place, int] = {}
        for each in member.read:
            place = (each.topic, each.partition)
            if place in owned and each.offset >= self._acknowledged.get(place, 0):
                positions[place] = each.offset + 1
        if positions:
            consumer.commit(positions)
        return positions

    def _wait(self, is_so: Any, what: str) -> None:
        def holds() -> bool:
            self._check()
            return all(is_so(place) for place in self._places)

        wait_until(holds, f"{self.name} to {what}", WITHIN_S)

    def _check(self) -> None:
        for member in self._members:
            member.check()
        if self._failure is not None:
            raise AssertionError(f"{self.name} failed") from self._failure
