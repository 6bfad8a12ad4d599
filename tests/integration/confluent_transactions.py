"""confluent-kafka (librdkafka) behind the interface of `transactions.py`.

librdkafka 2.16 waits forever in send_offsets_to_transaction for a group's coordinator whose thread it has
ended (see api/support/recently_fenced_brokers.py). It ends all of them when it holds all brokers for dead, as
it does when they die one after the other and it had no reason yet to connect to those that are back, unless
`metadata.recovery.strategy` is `none`: programs in transactions should say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.integration.clients import DEADLINE_S, Outgoing, Place
from tests.integration.confluent_client import QUICK, refusal, translated
from tests.integration.transactions import (
    Reader,
    TransactionalProducer,
    TransactionLibrary,
    TransactionOptions,
)


class ConfluentTransactions(TransactionalProducer):
    def __init__(self, address: str, options: TransactionOptions) -> None:
        self._address = address
        self._library = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": options.transactional_id,
                "transaction.timeout.ms": options.timeout_ms,
                "socket.timeout.ms": min(options.request_timeout_ms, options.timeout_ms),
                "delivery.timeout.ms": options.timeout_ms,
                "linger.ms": 5,
                "log_level": 0,
                "metadata.recovery.strategy": "none",
                **QUICK,
            }
        )
        with translated():
            self._library.init_transactions(DEADLINE_S)

    def begin(self) -> None:
        with translated():
            self._library.begin_transaction()

    def send(self, topic: str, records: Sequence[Outgoing]) -> None:
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                errors.append(error)

        with translated():
            for record in records:
                self._library.produce(
                    topic, record.value, record.key, partition=record.partition, on_delivery=delivered
                )
            unsent = self._flush(DEADLINE_S)
        if errors:
            raise refusal(errors[0])
        assert unsent == 0, f"{unsent} records were neither delivered nor refused"

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        # Only a consumer can say who is in the group: this one is nobody in it.
        consumer = Consumer({"bootstrap.servers": self._address, "group.id": group, "log_level": 0})
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        try:
            with translated():
                who = consumer.consumer_group_metadata()
                self._library.send_offsets_to_transaction(wanted, who, DEADLINE_S)
        finally:
            consumer.close()

    def commit(self) -> None:
        with translated():
            self._library.commit_transaction(DEADLINE_S)

    def abort(self) -> None:
        with translated():
            self._library.abort_transaction(DEADLINE_S)

    def close(self) -> None:
        self._library.purge()
        try:
            self._flush(1)
        except KafkaException:
            pass  # it is known, or nobody cares: what was not sent has been purged
        del self._library

    def _flush(self, within_s: float) -> int:
        try:
            return self._library.flush(within_s)
        except SystemError as error:
            # A fatal error is raised before the callbacks run, which then run with an exception pending.
            raise error.__cause__ or error from error


class ConfluentReader(Reader):
    def __init__(self, address: str, group: str, committed: bool) -> None:
        self._library = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "log_level": 0,
                **QUICK,
            }
        )

    def assign(self, positions: Mapping[Place, int]) -> None:
        self._library.assign([TopicPartition(*place, offset) for place, offset in positions.items()])

    def poll(self, timeout_s: float) -> list[tuple[Place, int, bytes]]:
        first = self._library.poll(timeout_s)
        messages = [] if first is None else [first, *self._library.consume(1_000, 0)]
        for message in messages:
            if message.error():
                raise refusal(message.error())
        return [((each.topic(), each.partition()), each.offset(), each.value()) for each in messages]

    def end(self, place: Place) -> int:
        with translated():
            return self._library.get_watermark_offsets(TopicPartition(*place), DEADLINE_S, cached=False)[1]

    def committed(self, place: Place) -> int | None:
        with translated():
            (found,) = self._library.committed([TopicPartition(*place)], DEADLINE_S)
        if found.error:
            raise refusal(found.error)
        return None if found.offset < 0 else found.offset

    def close(self) -> None:
        self._library.close()


CONFLUENT = TransactionLibrary("confluent-kafka", ConfluentTransactions, ConfluentReader)
