"""transaction.version=2 against a cluster: no library speaks it yet, so this is a client of our own.

Every request goes to the broker that it is for, wherever that is at the moment: to a coordinator, or to the
leader of a partition. What fails in passing is sent again, as it was: nothing may come of that.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from tests.integration.clients import DEADLINE_S, Outgoing, Place
from tests.integration.confluent_transactions import ConfluentReader
from tests.integration.transactions import TransactionalProducer, TransactionLibrary, TransactionOptions
from tests.integration.wire import Closed, Wire
from tests.integration.wire_transactions import TRANSACTION, V2, WAIT, Versions, WireProducer

from ottla.protocol.api_keys import ApiKey
from ottla.testing.cluster_process import ClusterView, view_of

GROUP = 0
"""The type of coordinator to find."""
PAUSE_S = 0.05
PASSING = {
    ErrorCode.none,
    *WAIT,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
}


class NotThere(OSError):
    """Nobody is there for a request, for the moment."""


class RoutingWire:
    """Connections to all brokers of a cluster; `call` finds out which of them a request is for."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._addresses = bootstrap.split(",")
        self._transactional_id = transactional_id
        self._wires: dict[str, Wire] = {}

    def __exit__(self, *_: object) -> None:
        for wire in self._wires.values():
            wire.__exit__()
        self._wires.clear()

    def call(self, key: int, version: int, **fields: Any) -> Any:
        """Send a request to whom it is for, again and again until there is an answer."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                return self._call(self._address_for(key, fields), key, version, **fields)
            except (OSError, Closed) as error:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no broker answers {ApiKey(key).name}") from error
                time.sleep(PAUSE_S)

    def _address_for(self, key: int, fields: Mapping[str, Any]) -> str:
        if key == ApiKey.FIND_COORDINATOR:
            return self._any()
        if key == ApiKey.PRODUCE:
            (topic,) = fields["topic_data"]
            return self._leader((topic["name"], topic["partition_data"][0]["index"]))
        if key == ApiKey.TXN_OFFSET_COMMIT:
            return self._coordinator(GROUP, fields["group_id"])
        return self._coordinator(TRANSACTION, self._transactional_id)

    def _any(self) -> str:
        return self._seen_by_any()[0]

    def _seen_by_any(self) -> tuple[str, ClusterView]:
        """Return the first broker that answers, and what it says of the cluster."""
        for address in self._addresses:
            try:
                return address, view_of(address)
            except OSError:
                continue
        raise NotThere("no broker")

    def _coordinator(self, kind: int, name: str) -> str:
        answer = self._call(
            self._any(), ApiKey.FIND_COORDINATOR, 4, key_type=kind, coordinator_keys=[name]
        ).coordinators[0]
        if answer.error_code != ErrorCode.none:
            raise NotThere(f"no coordinator: {answer.error_code.name}")
        return f"{answer.host}:{answer.port}"

    def _leader(self, place: Place) -> str:
        _, view = self._seen_by_any()
        if place not in view.partitions:  # this broker has not heard of it yet
            raise NotThere(f"{place} is not known")
        leader = view.partitions[place].leader
        if leader not in view.brokers:
            raise NotThere(f"{place} has no leader")
        return view.brokers[leader]

    def _wire(self, address: str) -> Wire:
        if address not in self._wires:
            self._wires[address] = Wire(address)
        return self._wires[address]

    def _call(self, address: str, key: int, version: int, **fields: Any) -> Any:
        wire = self._wire(address)
        try:
            return wire.call(key, version, **fields)
        except (OSError, Closed):
            wire.__exit__()
            del self._wires[address]
            raise


class RoutedProducer(WireProducer):
    """A producer of bare bytes that finds its way through a cluster."""

    def __init__(self, bootstrap: str, transactional_id: str, versions: Versions = V2) -> None:
        self.address = bootstrap
        self.wire: Any = RoutingWire(bootstrap, transactional_id)
        self.transactional_id = transactional_id
        self.versions = versions
        self.producer_id = self.epoch = -1
        self.sequences = defaultdict(int)

    @staticmethod
    def _is_done(codes: list[ErrorCode]) -> bool:
        assert set(codes) <= PASSING, codes
        return set(codes) == {ErrorCode.none}


class RoutedTransactions(TransactionalProducer):
    def __init__(self, address: str, options: TransactionOptions) -> None:
        self._producer = RoutedProducer(address, options.transactional_id)
        self._producer.start(timeout_ms=options.timeout_ms)

    def begin(self) -> None:
        """Do nothing: a transaction begins with its first record."""

    def send(self, topic: str, records: Sequence[Outgoing]) -> None:
        by_partition: dict[int, list[bytes]] = defaultdict(list)
        for record in records:
            by_partition[record.partition].append(record.value or b"")
        for partition, values in by_partition.items():
            self._producer.write((topic, partition), *values)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        self._producer.write_offsets(group, offsets)

    def commit(self) -> None:
        self._producer.finish(True)

    def abort(self) -> None:
        self._producer.finish(False)

    def close(self) -> None:
        self._producer.__exit__()


ROUTED = TransactionLibrary("transaction.version=2", RoutedTransactions, ConfluentReader)
