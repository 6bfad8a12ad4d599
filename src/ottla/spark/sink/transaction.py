"""What a task writes with: a producer that takes whole encoded batches, in a transaction or without one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future

from kio.schema.errors import ErrorCode

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.producer.core import ProducerCore
from ottla.client.producer.options import ProducerOptions
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.spark.cluster_session import ClusterSession
from ottla.spark.errors import TwoPhaseCommitOff
from ottla.spark.sink.decisions import Prepared
from ottla.spark.sink.rows import Encoded

TWO_PHASE_COMMIT_OFF = (
    "the broker does not allow prepared transactions, which exactly-once needs. Start it with "
    "`ottla serve --set transaction.two.phase.commit.enable=true`, or write with "
    '.option("deliveryGuarantee", "at-least-once")'
)


class BatchProducer:
    """Sends encoded batches from the thread of a task; at most one hand-over is under way."""

    def __init__(self, link: ClusterSession, options: ProducerOptions) -> None:
        self._link = link
        self._options = options
        self._core = link.run(_started(link.cluster, options))
        self._under_way: Future[None] | None = None

    def begin(self, is_decided: Callable[[Prepared], Awaitable[bool]]) -> None:
        """Take the transactional id and begin a transaction.

        What an earlier attempt has left open is ended first: committed if it `is_decided`, else aborted.
        """
        try:
            self._link.run(self._begin(is_decided))
        except KafkaError as error:
            if error.code == ErrorCode.transactional_id_authorization_failed:
                raise TwoPhaseCommitOff(TWO_PHASE_COMMIT_OFF) from None
            raise

    async def _begin(self, is_decided: Callable[[Prepared], Awaitable[bool]]) -> None:
        transactions = self._core.transactions
        assert transactions is not None
        left = await transactions.init(keep_prepared=True)
        if left is not None:
            assert self._options.transactional_id is not None
            if await is_decided(Prepared(self._options.transactional_id, *left)):
                await transactions.commit()
            else:
                await transactions.abort()
        await transactions.begin()

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; the broker may create it."""
        return self._link.run(self._open(topic))

    async def _open(self, topic: str) -> int:
        await self._core.open_topic(topic)
        return len((await self._core.cluster.topic(topic)).partitions)

    def send(self, batches: Iterable[Encoded]) -> None:
        """Hand batches over; wait until those before are queued, and there is room."""
        found = list(batches)
        if found:
            self._settle()
            self._under_way = self._link.begin(self._send(found))

    async def _send(self, batches: list[Encoded]) -> None:
        core = self._core
        for at, encoded, count in batches:
            while core.accumulator.buffered_bytes > self._options.buffer_memory:
                await next(iter(core.accumulator.unsettled)).settled()
            core.check()
            queue = core.accumulator.queues[TopicPartition(*at)]
            core.accumulator.append_encoded(queue, encoded, count)
            if core.transactions is not None:
                core.transactions.joins(at)
            core.sender.notify(queue)

    def flush(self) -> None:
        """Wait until all is delivered; raise what failed."""
        self._settle()
        self._link.run(self._core.flush())

    def prepare(self) -> Prepared:
        """Deliver everything, and promise that the transaction can be committed."""
        self._settle()
        transactions = self._core.transactions
        assert transactions is not None
        assert self._options.transactional_id is not None
        return Prepared(self._options.transactional_id, *self._link.run(transactions.prepare()))

    def abort(self) -> None:
        """Give the transaction up, as far as that is still possible: it would hold readers back."""
        transactions = self._core.transactions
        assert transactions is not None
        try:
            self._link.run(transactions.abort())
        except (KafkaError, ClientError):
            pass  # then it times out, or the next attempt takes the id

    def close(self) -> None:
        """End the background work; a prepared transaction stays as it is."""
        if self._under_way is not None:
            self._under_way.cancel()
        self._link.run(self._core.stop())

    def _settle(self) -> None:
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None


async def _started(cluster: Cluster, options: ProducerOptions) -> ProducerCore:
    core = ProducerCore(options, cluster)
    await core.start()
    return core
