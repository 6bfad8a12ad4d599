"""The producer of a task: sends encoded batches, in a transaction or without one."""

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
from ottla.spark.sink.row_encoder import Encoded

TWO_PHASE_COMMIT_OFF = (
    "the broker does not allow prepared transactions, which exactly-once needs. Start it with "
    "`ottla serve --set transaction.two.phase.commit.enable=true`, or write with "
    '.option("deliveryGuarantee", "at-least-once")'
)


class BatchProducer:
    """Sends encoded batches from a task's thread; at most one send is in flight."""

    def __init__(self, session: ClusterSession, options: ProducerOptions) -> None:
        self._session = session
        self._options = options
        self._core = session.run(_started(session.cluster, options))
        self._under_way: Future[None] | None = None

    def begin(self, is_decided: Callable[[Prepared], Awaitable[bool]]) -> None:
        """Initialise the transactional id and begin a transaction.

        An open transaction of an earlier attempt is ended first: committed if it `is_decided`, else aborted.
        """
        try:
            self._session.run(self._begin(is_decided))
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
        """Return the number of partitions of a topic; the broker may auto-create it."""
        return self._session.run(self._open(topic))

    async def _open(self, topic: str) -> int:
        await self._core.open_topic(topic)
        return len((await self._core.cluster.topic(topic)).partitions)

    def send(self, batches: Iterable[Encoded]) -> None:
        """Send batches in the background; wait until the previous ones are queued, and the buffer has
        room.
        """
        found = list(batches)
        if found:
            self._settle()
            self._under_way = self._session.begin(self._send(found))

    async def _send(self, batches: list[Encoded]) -> None:
        core = self._core
        for topic_partition, encoded, count in batches:
            while core.accumulator.buffered_bytes > self._options.buffer_memory:
                await next(iter(core.accumulator.unsettled)).settled()
            core.check()
            queue = core.accumulator.queues[TopicPartition(*topic_partition)]
            core.accumulator.append_encoded(queue, encoded, count)
            if core.transactions is not None:
                core.transactions.joins(topic_partition)
            core.sender.notify(queue)

    def flush(self) -> None:
        """Wait until everything is delivered; raise the first error."""
        self._settle()
        self._session.run(self._core.flush())

    def prepare(self) -> Prepared:
        """Deliver everything, and prepare the transaction."""
        self._settle()
        transactions = self._core.transactions
        assert transactions is not None
        assert self._options.transactional_id is not None
        return Prepared(self._options.transactional_id, *self._session.run(transactions.prepare()))

    def abort(self) -> None:
        """Abort the transaction if possible: it would block read_committed consumers."""
        transactions = self._core.transactions
        assert transactions is not None
        try:
            self._session.run(transactions.abort())
        except (KafkaError, ClientError):
            pass  # then it times out, or the next attempt takes over the id

    def close(self) -> None:
        """Stop the producer; a prepared transaction remains prepared."""
        if self._under_way is not None:
            self._under_way.cancel()
        self._session.run(self._core.stop())

    def _settle(self) -> None:
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None


async def _started(cluster: Cluster, options: ProducerOptions) -> ProducerCore:
    core = ProducerCore(options, cluster)
    await core.start()
    return core
