"""The producer of `wire_transactions.py` as a client library that speaks transaction.version=2.

None of the others does yet. A request whose answer was lost
is sent again as it was, over a new connection, until it is answered.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from tests.integration.aiokafka_transactions import AiokafkaReader
from tests.integration.clients import DEADLINE_S, Outgoing, Place
from tests.integration.transactions import TransactionalProducer, TransactionLibrary, TransactionOptions
from tests.integration.wire import Closed
from tests.integration.wire_transactions import V2, Versions, WireProducer

RETRY_S = 0.02


class WireTransactions(TransactionalProducer):
    """One producer that does not give up."""

    def __init__(self, address: str, options: TransactionOptions, versions: Versions) -> None:
        self._wire = WireProducer(address, options.transactional_id, versions)
        self._persist(lambda: self._wire.start(timeout_ms=options.timeout_ms))

    def begin(self) -> None:
        self._is_used = False

    def send(self, topic: str, records: Sequence[Outgoing]) -> None:
        values: dict[Place, list[bytes]] = defaultdict(list)
        for record in records:
            assert record.value is not None
            values[topic, record.partition].append(record.value)
        for place, each in values.items():
            self._persist(lambda place=place, each=each: self._wire.write(place, *each))
        self._is_used = True

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        self._persist(lambda: self._wire.write_offsets(group, offsets))
        self._is_used = True

    def commit(self) -> None:
        self._end(commit=True)

    def abort(self) -> None:
        self._end(commit=False)

    def close(self) -> None:
        self._wire.__exit__()

    def _end(self, commit: bool) -> None:
        if self._is_used:
            self._persist(lambda: self._wire.finish(commit))

    def _persist(self, step: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                step()
                return
            except (Closed, OSError):
                if time.monotonic() > deadline:
                    raise
                self._reconnect(deadline)

    def _reconnect(self, deadline: float) -> None:
        while True:
            time.sleep(RETRY_S)
            try:
                return self._wire.reconnect()
            except OSError:
                if time.monotonic() > deadline:
                    raise


WIRE_V2 = TransactionLibrary(
    "wire-v2", lambda address, options: WireTransactions(address, options, V2), AiokafkaReader
)
