"""kafka-python behind the interface of `transactions.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from tests.integration.clients import DEADLINE_S, Outgoing, Place, Refused
from tests.integration.kafka_python_client import QUICK
from tests.integration.transactions import (
    Reader,
    TransactionalProducer,
    TransactionLibrary,
    TransactionOptions,
)


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


class KafkaPythonTransactions(TransactionalProducer):
    def __init__(self, address: str, options: TransactionOptions) -> None:
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
                self._library.init_transactions()
            except BaseException:
                self._library.close(0)
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
            self._library.flush(DEADLINE_S)
            for future in futures:
                future.get(DEADLINE_S)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        wanted = {
            TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()
        }
        with translated():
            self._library.send_offsets_to_transaction(wanted, group)

    def commit(self) -> None:
        with translated():
            self._library.commit_transaction()

    def abort(self) -> None:
        with translated():
            self._library.abort_transaction()

    def close(self) -> None:
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
