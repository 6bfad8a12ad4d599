"""kafka-python behind the interface of `transactions.py`.

kafka-python 3.0.12 drops a transactional request when connecting to its coordinator fails: in
`producer/sender.py`, `_maybe_send_pending_request` looks for the coordinator again, but puts the request back
into the queue only if it has no node, and `await_ready` raises with the node set. The call waits forever
then, with Apache Kafka's brokers as with ours: a program must go on with a new producer. So do ours, but
only when the library has said in its log that this has happened.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata
from tests.integration.clients import DEADLINE_S, Outgoing, Place, Refused
from tests.integration.kafka_python_client import QUICK
from tests.integration.transactions import (
    Reader,
    TransactionalProducer,
    TransactionLibrary,
    TransactionOptions,
)

POLL_INTERVAL_S = 0.05


@contextmanager
def translated() -> Iterator[None]:
    """Turn the library's errors into ours; some say only in their text what the broker said."""
    try:
        yield
    except KafkaError as error:
        code = getattr(error, "errno", None)
        if code is None and (found := re.search(r"\[Error (-?\d+)\]", str(error))):
            code = int(found[1])
        raise Refused(code, str(error)) from error


class DroppedRequests(logging.Handler):
    """Hears of the requests that the library drops, of one transactional id."""

    _SENDER = logging.getLogger("kafka.producer.sender")
    _WHAT = re.compile(r"exception when trying to find a node .* Node coordinator-\d+ not ready")

    def __init__(self, transactional_id: str) -> None:
        super().__init__(logging.WARNING)
        self._whose = f"transactional_id={transactional_id}>"
        self._happened = threading.Event()
        self._SENDER.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of it."""
        text = record.getMessage()
        if self._whose in text and self._WHAT.search(text):
            self._happened.set()

    def close(self) -> None:
        """Hear no more."""
        self._SENDER.removeHandler(self)
        super().close()

    def call(self, what: Callable[[], None]) -> None:
        """Call, and return or raise what comes of it; Refused if the request was dropped."""
        failures: list[BaseException] = []

        def run() -> None:
            try:
                what()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run, name="a call of kafka-python", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(POLL_INTERVAL_S)
            if self._happened.is_set():
                raise Refused(None, "kafka-python has dropped the request")
        if failures:
            raise failures[0]


class KafkaPythonTransactions(TransactionalProducer):
    def __init__(self, address: str, options: TransactionOptions) -> None:
        self._dropped = DroppedRequests(options.transactional_id)
        with translated():
            self._library = KafkaProducer(
                bootstrap_servers=address,
                transactional_id=options.transactional_id,
                transaction_timeout_ms=options.timeout_ms,
                request_timeout_ms=options.request_timeout_ms,
                delivery_timeout_ms=int(DEADLINE_S * 1000),
                max_block_ms=int(DEADLINE_S * 1000),
                linger_ms=5,
                **QUICK,
            )
            try:
                self._dropped.call(self._library.init_transactions)
            except BaseException:
                self.close()
                raise

    def begin(self) -> None:
        with translated():
            self._library.begin_transaction()

    def send(self, topic: str, records: Sequence[Outgoing]) -> None:
        with translated():
            futures = [
                self._library.send(topic, value=one.value, key=one.key, partition=one.partition)
                for one in records
            ]
            self._dropped.call(lambda: self._library.flush(DEADLINE_S))
            for future in futures:
                future.get(DEADLINE_S)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        wanted = {
            TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()
        }
        with translated():
            self._dropped.call(lambda: self._library.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        with translated():
            self._dropped.call(self._library.commit_transaction)

    def abort(self) -> None:
        with translated():
            self._dropped.call(self._library.abort_transaction)

    def close(self) -> None:
        self._dropped.close()
        with suppress(KafkaTimeoutError):  # it stays as it is then, and is fenced by the next one
            self._library.close(0)


class KafkaPythonReader(Reader):
    def __init__(self, address: str, group: str, committed: bool) -> None:
        self._library = KafkaConsumer(
            bootstrap_servers=address,
            group_id=group,
            isolation_level="read_committed" if committed else "read_uncommitted",
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=100,
            **QUICK,
        )

    def assign(self, positions: Mapping[Place, int]) -> None:
        self._library.assign([TopicPartition(*place) for place in positions])
        for place, offset in positions.items():
            self._library.seek(TopicPartition(*place), offset)

    def poll(self, timeout_s: float) -> list[tuple[Place, int, bytes]]:
        with translated():
            polled = self._library.poll(timeout_ms=int(timeout_s * 1000))
        return [
            ((one.topic, one.partition), one.offset, one.value)
            for records in polled.values()
            for one in records
        ]

    def end(self, place: Place) -> int:
        asked = TopicPartition(*place)
        with translated():
            return self._library.end_offsets([asked])[asked]

    def committed(self, place: Place) -> int | None:
        with translated():
            return self._library.committed(TopicPartition(*place))

    def close(self) -> None:
        self._library.close()


KAFKA_PYTHON = TransactionLibrary("kafka-python", KafkaPythonTransactions, KafkaPythonReader)
