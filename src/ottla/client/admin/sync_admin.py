"""The admin client without asyncio: the same core, on an event loop in a background thread."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.options import AdminOptions
from ottla.client.admin.sync_topics import TopicCalls
from ottla.client.bridge import Bridge
from ottla.client.cluster_admin import ClusterInfo, MoveInfo, Outcomes
from ottla.client.group_types import CommittedOffset, GroupDescription, ListedGroup, OffsetAndMetadata
from ottla.client.lag import Measured
from ottla.client.log_directories import LogDirectory, PartitionDescription
from ottla.client.partition_producers import PartitionProducer
from ottla.client.signatures import accepts
from ottla.client.transactions import ListedTransaction, OpenTransaction, TransactionDescription
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError


class Admin(TopicCalls):
    """Looks at a cluster and changes it: topics, configs, groups, brokers, transactions.

        with Admin("localhost:9092") as admin:
            admin.create_topic("orders", partitions=6, configs={"retention.ms": "86400000"})
            print(admin.group_lag("billing"))

    What a broker refuses is raised as the error of its code (`TopicAlreadyExists`, ...); methods that change
    many things at once return the error of each. Calls are repeated while brokers are away
    and while leaders, coordinators and the controller move, for `default_api_timeout_ms`: then TimedOut says
    why. No broker has to be up yet when it is made. Threads may share it.
    """

    @accepts(AdminOptions)
    def __init__(self, options: AdminOptions) -> None:
        self.options = options
        self._bridge = Bridge("ottla admin")
        try:
            self._async = self._bridge.run(_started(options))
        except BaseException:
            self._bridge.close()
            raise
        self._finalizer = weakref.finalize(self, _forgotten, self._bridge)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect, and end the thread."""
        if self._finalizer.detach() is None:
            return  # it is closed
        try:
            self._bridge.run(self._async.close())
        finally:
            self._bridge.close()

    # Groups.

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """Return the groups in these states (`Stable`, `Empty`, ...) and of these types, or all."""
        return self._bridge.run(self._async.list_groups(states, types))

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group and its members; raise GroupIdNotFound if it does not exist."""
        return self._bridge.run(self._async.describe_group(group_id))

    def group_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return every offset that a group has committed; none if it does not exist."""
        return self._bridge.run(self._async.group_offsets(group_id))

    def group_lag(self, group_id: str) -> dict[TopicPartition, Measured]:
        """Return how far behind a group is, in records and seconds, in each partition it has committed."""
        return self._bridge.run(self._async.group_lag(group_id))

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Set the offsets of a group without members; UnknownMemberId if it has some."""
        self._bridge.run(self._async.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget offsets of topics that the group does not subscribe to any more."""
        self._bridge.run(self._async.delete_group_offsets(group_id, partitions))

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        self._bridge.run(self._async.delete_group(group_id))

    def remove_group_members(
        self, group_id: str, member_ids: Iterable[str] = (), *, instance_ids: Iterable[str] = ()
    ) -> dict[str, KafkaError | None]:
        """Take members out of a classic group, static ones by instance id; return why each could not be."""
        return self._bridge.run(
            self._async.remove_group_members(group_id, member_ids, instance_ids=instance_ids)
        )

    # The cluster.

    def describe_cluster(self) -> ClusterInfo:
        """Return the brokers, the controller, the partitions and the moves under way."""
        return self._bridge.run(self._async.describe_cluster())

    def describe_partitions(self, topics: Sequence[str]) -> dict[TopicPartition, PartitionDescription]:
        """Return the partitions of topics, with those that may lead though they are not in sync."""
        return self._bridge.run(self._async.describe_partitions(topics))

    def describe_log_dirs(self, node_ids: Iterable[int] | None = None) -> dict[int, list[LogDirectory]]:
        """Return what these brokers, or all, keep in their log directories, with sizes."""
        return self._bridge.run(self._async.describe_log_dirs(node_ids))

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> Outcomes:
        """Elect preferred leaders (None: of all partitions); with `unclean` anyone, where nobody leads."""
        return self._bridge.run(self._async.elect_leaders(partitions, unclean=unclean))

    def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Begin to move partitions to these brokers, the preferred leader first; None cancels a move."""
        return self._bridge.run(self._async.reassign(targets))

    def list_reassignments(self) -> dict[TopicPartition, MoveInfo]:
        """Return the partitions that are on their way to other brokers."""
        return self._bridge.run(self._async.list_reassignments())

    def unregister_broker(self, node_id: int) -> None:
        """Let the cluster forget a broker that is gone."""
        self._bridge.run(self._async.unregister_broker(node_id))

    def features(self) -> dict[str, int]:
        """Return the finalized features of the cluster and their levels."""
        return self._bridge.run(self._async.features())

    # Transactions.

    def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        *,
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """Return the transactional ids that pass all filters; which are prepared is said of each."""
        return self._bridge.run(
            self._async.list_transactions(
                states, producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
            )
        )

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Return all about a transactional id; raise TransactionalIdNotFound if nobody knows it."""
        return self._bridge.run(self._async.describe_transaction(transactional_id))

    def abort_transaction(self, transactional_id: str) -> None:
        """Abort what is open under a transactional id, also what is prepared, and fence its producer."""
        self._bridge.run(self._async.abort_transaction(transactional_id))

    def open_transactions(self, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
        """Return the transactions that are open in partitions, as their leaders see it."""
        return self._bridge.run(self._async.open_transactions(partitions))

    def hanging_transactions(
        self, partitions: Iterable[TopicPartition], *, older_than_ms: int = 900_000
    ) -> list[OpenTransaction]:
        """Return the transactions that are open in partitions, old, and known to no coordinator."""
        return self._bridge.run(self._async.hanging_transactions(partitions, older_than_ms=older_than_ms))

    def abort_open_transaction(self, opened: OpenTransaction) -> None:
        """Write an abort marker for a transaction that hangs: that no coordinator will end."""
        self._bridge.run(self._async.abort_open_transaction(opened))

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[PartitionProducer]]:
        """Return the producers that the leaders of partitions remember."""
        return self._bridge.run(self._async.describe_producers(partitions))


async def _started(options: AdminOptions) -> AsyncAdmin:
    admin = AsyncAdmin.with_options(options)
    await admin.start()
    return admin


def _forgotten(bridge: Bridge) -> None:
    """End the thread of an admin client that nobody closed."""
    warnings.warn("an admin client was not closed: use `with`, or close()", ResourceWarning, stacklevel=2)
    if bridge.is_here:
        bridge.post(bridge.close)
    else:
        bridge.close()
