"""Our own producers behind the interface of `transactions.py`, in both their faces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.integration.clients import DEADLINE_S, Outgoing, Place
from tests.integration.ottla_client import QUICK, translated
from tests.integration.ottla_faces import abandon, open_face
from tests.integration.transactions import (
    Reader,
    TransactionalProducer,
    TransactionLibrary,
    TransactionOptions,
)

from ottla.client import AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition


class OttlaTransactions(TransactionalProducer):
    def __init__(self, face: type[Any], address: str, options: TransactionOptions) -> None:
        self._library = open_face(
            face,
            address,
            transactional_id=options.transactional_id,
            transaction_timeout_ms=options.timeout_ms,
            request_timeout_ms=options.request_timeout_ms,
            linger_ms=5,
            **QUICK,
        )
        try:
            with translated():
                self._library.init_transactions()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        with translated():
            self._library.begin_transaction()

    def send(self, topic: str, records: Sequence[Outgoing]) -> None:
        with translated():
            deliveries = [
                self._library.send(topic, one.value, one.key, partition=one.partition) for one in records
            ]
            for each in deliveries:
                each.result(DEADLINE_S)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        wanted = {TopicPartition(*place): offset for place, offset in offsets.items()}
        with translated():
            self._library.send_offsets_to_transaction(wanted, group)

    def commit(self) -> None:
        with translated():
            self._library.commit_transaction()

    def abort(self) -> None:
        with translated():
            self._library.abort_transaction()

    def close(self) -> None:
        abandon(self._library)


class OttlaReader(Reader):
    def __init__(self, face: type[Any], address: str, group: str, committed: bool) -> None:
        self._library = open_face(
            face,
            address,
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
        polled = self._library.getmany(timeout_ms=timeout_s * 1000)
        return [
            ((one.topic, one.partition), one.offset, one.value)
            for records in polled.values()
            for one in records
        ]

    def end(self, place: Place) -> int:
        asked = TopicPartition(*place)
        return self._library.end_offsets([asked])[asked]

    def committed(self, place: Place) -> int | None:
        asked = TopicPartition(*place)
        with translated():
            found = self._library.committed([asked])[asked]
        return None if found is None else found.offset

    def close(self) -> None:
        self._library.close()


def _library(name: str, producer: type[Any], consumer: type[Any]) -> TransactionLibrary:
    def make_producer(address: str, options: TransactionOptions) -> TransactionalProducer:
        return OttlaTransactions(producer, address, options)

    def make_reader(address: str, group: str, committed: bool) -> Reader:
        return OttlaReader(consumer, address, group, committed)

    return TransactionLibrary(name, make_producer, make_reader)


OTTLA = _library("ottla", Producer, Consumer)
OTTLA_ASYNC = _library("ottla-async", AsyncProducer, AsyncConsumer)
