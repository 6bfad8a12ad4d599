"""The admin client without asyncio: the same core, on an event loop in a background thread."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, Unpack

from ottla.client.admin.acls import Acl, AclQuery
from ottla.client.admin.async_admin import AdminOptions, AsyncAdmin
from ottla.client.admin.cluster_admin import (
    ClusterInfo,
    LogDirectory,
    MoveInfo,
    Outcomes,
    PartitionDescription,
)
from ottla.client.admin.config_admin import ConfigEntry
from ottla.client.admin.delegation_tokens import DelegationTokenInfo
from ottla.client.admin.group_types import CommittedOffset, GroupDescription, ListedGroup, OffsetAndMetadata
from ottla.client.admin.lag import Measured
from ottla.client.admin.quotas import EntityQuotas
from ottla.client.admin.scram_users import ITERATIONS
from ottla.client.admin.share_groups import ShareOffset
from ottla.client.admin.topic_admin import CreatedTopic, NewTopic
from ottla.client.admin.transactions import (
    ListedTransaction,
    OpenTransaction,
    PartitionProducer,
    TransactionDescription,
)
from ottla.client.cluster import TopicInfo
from ottla.client.event_loop_thread import EventLoopThread
from ottla.client.offsets import OffsetAndTime
from ottla.client.signatures import accepts
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError


class Admin:
    """Describes and changes a cluster: topics, configs, groups, brokers, transactions.

        with Admin("localhost:9092") as admin:
            admin.create_topic("orders", partitions=6, configs={"retention.ms": "86400000"})
            print(admin.group_lag("billing"))

    Error codes of brokers are raised as classes (`TopicAlreadyExists`, ...); methods that change several
    things return the error of each. Calls are retried while brokers are unreachable and while leaders,
    coordinators and the controller move, for `default_api_timeout_ms`; then TimedOut names the reason. No
    broker needs to be up when it is created. Threads may share it.
    """

    _loop_thread: EventLoopThread
    _async: AsyncAdmin

    # Topics.

    def list_topics(self) -> dict[str, TopicInfo]:
        """Return every topic by name, internal ones included."""
        return self._loop_thread.run(self._async.list_topics())

    def describe_topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """Return the topics of these names; raise UnknownTopicOrPartition if there is no such topic."""
        return self._loop_thread.run(self._async.describe_topics(names))

    def offset_ranges(self, topic: TopicInfo) -> dict[int, tuple[int, int]]:
        """Return the first and the end offset of each partition of a topic that has a leader."""
        return self._loop_thread.run(self._async.offset_ranges(topic))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTime]:
        """Return the offset of a timestamp for each partition.

        The timestamp is in milliseconds, for the first record at or after it (offset -1 if there is none);
        or EARLIEST (-2), or LATEST (-1).
        """
        return self._loop_thread.run(self._async.list_offsets(wanted, read_committed=read_committed))

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; -1 leaves a count to the broker's configuration."""
        return self._loop_thread.run(
            self._async.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                validate_only=validate_only,
            )
        )

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics; return each, or its error."""
        return self._loop_thread.run(self._async.create_topics(topics, validate_only=validate_only))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""
        self._loop_thread.run(self._async.delete_topic(name))

    def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics and their records; return the error of each, or None."""
        return self._loop_thread.run(self._async.delete_topics(names))

    def create_partitions(
        self,
        name: str,
        total: int,
        *,
        replicas: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Increase a topic to `total` partitions; `replicas` places each new one on brokers."""
        self._loop_thread.run(
            self._async.create_partitions(name, total, replicas=replicas, validate_only=validate_only)
        )

    # Configs.

    def topic_configs(self, name: str, *, documentation: bool = False) -> list[ConfigEntry]:
        """Return every config of a topic, defaults included, sorted by name."""
        return self._loop_thread.run(self._async.topic_configs(name, documentation=documentation))

    def broker_configs(self, node_id: int | None = None, *, documentation: bool = False) -> list[ConfigEntry]:
        """Return every config of a broker, or (None) the dynamic cluster-wide defaults."""
        return self._loop_thread.run(self._async.broker_configs(node_id, documentation=documentation))

    def topics_config(self, key: str, topics: Sequence[str]) -> dict[str, str]:
        """Return one config of many topics, without topics that do not exist."""
        return self._loop_thread.run(self._async.topics_config(key, topics))

    def alter_topic_configs(
        self,
        name: str,
        *,
        set_to: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set some configs of a topic and reset others to their defaults; leave the rest unchanged."""
        self._loop_thread.run(
            self._async.alter_topic_configs(name, set_to=set_to, unset=unset, validate_only=validate_only)
        )

    def topics_overrides(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the configs that are set on the topics themselves; without values that are secret."""
        return self._loop_thread.run(self._async.topics_overrides(topics))

    def alter_broker_configs(
        self,
        node_id: int | None = None,
        *,
        set_to: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set dynamic configs of one broker, or (None) of all; reset others to their defaults."""
        self._loop_thread.run(
            self._async.alter_broker_configs(node_id, set_to=set_to, unset=unset, validate_only=validate_only)
        )

    # Records.

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (-1: the high watermark); return the new start offsets."""
        return self._loop_thread.run(self._async.delete_records(before))

    @accepts(AdminOptions)
    def __init__(self, options: AdminOptions) -> None:
        self.options = options
        self._loop_thread = EventLoopThread("ottla admin")
        try:
            self._async = self._loop_thread.run(_started(options))
        except BaseException:
            self._loop_thread.close()
            raise
        self._finalizer = weakref.finalize(self, _forgotten, self._loop_thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect, and stop the thread."""
        if self._finalizer.detach() is None:
            return  # it is closed
        try:
            self._loop_thread.run(self._async.close())
        finally:
            self._loop_thread.close()

    # Groups.

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """Return the groups in these states (`Stable`, `Empty`, ...) and of these types, or all."""
        return self._loop_thread.run(self._async.list_groups(states, types))

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group and its members; raise GroupIdNotFound if it does not exist."""
        return self._loop_thread.run(self._async.describe_group(group_id))

    def group_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of a group; none if it does not exist."""
        return self._loop_thread.run(self._async.group_offsets(group_id))

    def share_group_offsets(self, group_id: str) -> dict[TopicPartition, ShareOffset]:
        """Return how far a share group (Apache Kafka 4) is in each partition."""
        return self._loop_thread.run(self._async.share_group_offsets(group_id))

    def group_lag(self, group_id: str) -> dict[TopicPartition, Measured]:
        """Return the lag of a group, in records and seconds, in each partition with a committed offset."""
        return self._loop_thread.run(self._async.group_lag(group_id))

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Reset the offsets of a group without members; raise UnknownMemberId if it has some."""
        self._loop_thread.run(self._async.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of topics that the group is not subscribed to."""
        self._loop_thread.run(self._async.delete_group_offsets(group_id, partitions))

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        self._loop_thread.run(self._async.delete_group(group_id))

    def remove_group_members(
        self, group_id: str, member_ids: Iterable[str] = (), *, instance_ids: Iterable[str] = ()
    ) -> dict[str, KafkaError | None]:
        """Remove members from a classic group, static ones by instance id; return the error of each."""
        return self._loop_thread.run(
            self._async.remove_group_members(group_id, member_ids, instance_ids=instance_ids)
        )

    # The cluster.

    def describe_cluster(self) -> ClusterInfo:
        """Return the brokers, the controller, the partitions and the ongoing reassignments."""
        return self._loop_thread.run(self._async.describe_cluster())

    def describe_partitions(self, topics: Sequence[str]) -> dict[TopicPartition, PartitionDescription]:
        """Return the partitions of topics, with their eligible leader replicas (KIP-966)."""
        return self._loop_thread.run(self._async.describe_partitions(topics))

    def describe_log_dirs(self, node_ids: Iterable[int] | None = None) -> dict[int, list[LogDirectory]]:
        """Return the log directories of these brokers, or of all, with the sizes of their replicas."""
        return self._loop_thread.run(self._async.describe_log_dirs(node_ids))

    def alter_replica_log_dirs(
        self, node_id: int, directories: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin to move replicas of a broker to other directories of it; return the error of each, or
        None.
        """
        return self._loop_thread.run(self._async.alter_replica_log_dirs(node_id, directories))

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> Outcomes:
        """Elect preferred leaders (None: of all partitions); with `unclean`, any replica if there is none."""
        return self._loop_thread.run(self._async.elect_leaders(partitions, unclean=unclean))

    def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Start to reassign partitions to these brokers, the preferred leader first; None cancels it."""
        return self._loop_thread.run(self._async.reassign(targets))

    def list_reassignments(self) -> dict[TopicPartition, MoveInfo]:
        """Return the ongoing reassignments."""
        return self._loop_thread.run(self._async.list_reassignments())

    def unregister_broker(self, node_id: int) -> None:
        """Unregister a broker that is gone for good."""
        self._loop_thread.run(self._async.unregister_broker(node_id))

    def features(self) -> dict[str, int]:
        """Return the finalized features of the cluster and their levels."""
        return self._loop_thread.run(self._async.features())

    # Quotas.

    def list_quotas(
        self,
        entity: Mapping[str, str | None] | None = None,
        *,
        types: Iterable[str] = (),
        strict: bool = False,
    ) -> list[EntityQuotas]:
        """Return the quotas of the entities with these names (None: the default) and types, or of all.

        Entities that have more types match too, unless `strict`.
        """
        return self._loop_thread.run(self._async.list_quotas(entity, types=types, strict=strict))

    def alter_quotas(
        self,
        entity: Mapping[str, str | None],
        *,
        set_to: Mapping[str, float] | None = None,
        unset: Sequence[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set quotas of an entity such as `{"user": "alice", "client-id": None}`, and remove others."""
        self._loop_thread.run(
            self._async.alter_quotas(entity, set_to=set_to, unset=unset, validate_only=validate_only)
        )

    # Security.

    def describe_scram_users(self, users: Iterable[str] = ()) -> dict[str, dict[str, int]]:
        """Return the SCRAM mechanisms, with their iterations, of these users or of all."""
        return self._loop_thread.run(self._async.describe_scram_users(users))

    def set_scram_password(
        self, user: str, password: str, *, mechanism: str = "SCRAM-SHA-512", iterations: int = ITERATIONS
    ) -> None:
        """Create a SCRAM user, or set another password; the password itself is not sent."""
        self._loop_thread.run(
            self._async.set_scram_password(user, password, mechanism=mechanism, iterations=iterations)
        )

    def remove_scram_user(self, user: str, *, mechanism: str | None = None) -> None:
        """Remove a SCRAM user, or its credential for one mechanism; raise ResourceNotFound if none exists."""
        self._loop_thread.run(self._async.remove_scram_user(user, mechanism=mechanism))

    def create_acls(self, acls: Iterable[Acl]) -> list[KafkaError | None]:
        """Create ACLs; return the error of each, in order."""
        return self._loop_thread.run(self._async.create_acls(acls))

    def describe_acls(self, **wanted: Unpack[AclQuery]) -> list[Acl]:
        """Return the ACLs that have all of these values, or all ACLs."""
        return self._loop_thread.run(self._async.describe_acls(**wanted))

    def delete_acls(self, **wanted: Unpack[AclQuery]) -> list[Acl]:
        """Delete the ACLs that have all of these values, or all ACLs; return them."""
        return self._loop_thread.run(self._async.delete_acls(**wanted))

    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
    ) -> DelegationTokenInfo:
        """Create a delegation token, for this client's principal or for another owner."""
        return self._loop_thread.run(
            self._async.create_delegation_token(
                owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms
            )
        )

    def renew_delegation_token(self, hmac: bytes, period_ms: int | None = None) -> int:
        """Extend the validity of a delegation token; return when it ends, in milliseconds since 1970."""
        return self._loop_thread.run(self._async.renew_delegation_token(hmac, period_ms))

    def expire_delegation_token(self, hmac: bytes, period_ms: int | None = None) -> int:
        """End the validity of a delegation token after a time, or (None) now; return when it ends."""
        return self._loop_thread.run(self._async.expire_delegation_token(hmac, period_ms))

    def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationTokenInfo]:
        """Return the delegation tokens of these owners, or all that the client may see."""
        return self._loop_thread.run(self._async.describe_delegation_tokens(owners))

    # Transactions.

    def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        *,
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """Return the transactional ids that match all filters, and whether each is prepared."""
        return self._loop_thread.run(
            self._async.list_transactions(
                states, producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
            )
        )

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Describe a transactional id; raise TransactionalIdNotFound if it does not exist."""
        return self._loop_thread.run(self._async.describe_transaction(transactional_id))

    def abort_transaction(self, transactional_id: str) -> None:
        """Abort the open or prepared transaction of a transactional id, and fence its producer."""
        self._loop_thread.run(self._async.abort_transaction(transactional_id))

    def open_transactions(self, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
        """Return the open transactions of partitions, from their leaders."""
        return self._loop_thread.run(self._async.open_transactions(partitions))

    def hanging_transactions(
        self, partitions: Iterable[TopicPartition], *, older_than_ms: int = 900_000
    ) -> list[OpenTransaction]:
        """Return the hanging transactions of partitions: old, and unknown to any coordinator."""
        return self._loop_thread.run(
            self._async.hanging_transactions(partitions, older_than_ms=older_than_ms)
        )

    def abort_open_transaction(self, opened: OpenTransaction) -> None:
        """Write an abort marker for a hanging transaction, which no coordinator will end."""
        self._loop_thread.run(self._async.abort_open_transaction(opened))

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[PartitionProducer]]:
        """Return the producer states of partitions, from their leaders."""
        return self._loop_thread.run(self._async.describe_producers(partitions))


async def _started(options: AdminOptions) -> AsyncAdmin:
    admin = AsyncAdmin.with_options(options)
    await admin.start()
    return admin


def _forgotten(loop_thread: EventLoopThread) -> None:
    """Stop the thread of an admin client that was not closed."""
    warnings.warn("an admin client was not closed: use `with`, or close()", ResourceWarning, stacklevel=2)
    if loop_thread.is_here:
        loop_thread.post(loop_thread.close)
    else:
        loop_thread.close()
