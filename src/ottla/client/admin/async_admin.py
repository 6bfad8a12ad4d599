"""The admin client for asyncio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, Unpack

from ottla.client.admin.acls import Acl, AclQuery, Acls
from ottla.client.admin.cluster_admin import (
    ClusterAdmin,
    ClusterInfo,
    LogDirectory,
    MoveInfo,
    Outcomes,
    PartitionDescription,
    alter_replica_log_dirs,
    describe_log_dirs,
    describe_partitions,
)
from ottla.client.admin.delegation_tokens import DelegationTokenInfo, DelegationTokens
from ottla.client.admin.group_types import CommittedOffset, GroupDescription, ListedGroup, OffsetAndMetadata
from ottla.client.admin.groups import Groups, remove_members
from ottla.client.admin.lag import Measured, measure
from ottla.client.admin.quotas import EntityQuotas, alter_quotas, list_quotas
from ottla.client.admin.scram_users import (
    ITERATIONS,
    describe_scram_users,
    remove_scram_user,
    set_scram_password,
)
from ottla.client.admin.share_groups import ShareOffset
from ottla.client.admin.topic_admin import TopicAdmin, delete_records
from ottla.client.admin.transactions import (
    ListedTransaction,
    OpenTransaction,
    PartitionProducer,
    TransactionDescription,
    Transactions,
    describe_producers,
)
from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.signatures import accepts
from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError


@dataclass(frozen=True)
class AdminOptions(ClientOptions):
    """The options of the admin clients: those that all clients share."""


class AsyncAdmin(TopicAdmin):
    """Describes and changes a cluster: topics, configs, groups, brokers, transactions.

        async with AsyncAdmin("localhost:9092") as admin:
            await admin.create_topic("orders", partitions=6, configs={"retention.ms": "86400000"})
            print(await admin.group_lag("billing"))

    Error codes of brokers are raised as classes (`TopicAlreadyExists`, ...); methods that change several
    things return the error of each. Calls are retried while brokers are unreachable and while leaders,
    coordinators and the controller move, for `default_api_timeout_ms`; then TimedOut names the reason. No
    broker needs to be up when it is created.
    """

    @accepts(AdminOptions)
    def __init__(self, options: AdminOptions) -> None:
        self._set_up(options)

    @classmethod
    def with_options(cls, options: AdminOptions) -> Self:
        """Return a client with these options."""
        admin = cls.__new__(cls)
        admin._set_up(options)
        return admin

    def _set_up(self, options: AdminOptions) -> None:
        super().__init__(Cluster(options=options, waits_for_brokers=True))
        self.options = options
        self._clock: Clock = SystemClock()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect to the cluster; if no broker is up, the first call retries.

        Raises permanent errors: AuthenticationFailed, TlsFailed and the like.
        """
        await self.cluster.start_lazily()

    async def close(self) -> None:
        """Disconnect."""
        await self.cluster.close()

    # Records.

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (-1: the high watermark); return the new start offsets."""
        return await delete_records(self.cluster, before)

    # Groups.

    async def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """Return the groups in these states (`Stable`, `Empty`, ...) and of these types, or all."""
        return await Groups(self.cluster).list(states, types)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group and its members; raise GroupIdNotFound if it does not exist."""
        return await Groups(self.cluster).describe(group_id)

    async def group_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of a group; none if it does not exist."""
        return await Groups(self.cluster).committed(group_id)

    async def share_group_offsets(self, group_id: str) -> dict[TopicPartition, ShareOffset]:
        """Return how far a share group (Apache Kafka 4) is in each partition."""
        return await Groups(self.cluster).share_offsets(group_id)

    async def group_lag(self, group_id: str) -> dict[TopicPartition, Measured]:
        """Return the lag of a group, in records and seconds, in each partition with a committed offset."""

        async def attempt() -> dict[TopicPartition, Measured]:
            committed = await self.group_offsets(group_id)
            offsets = {at: each.offset for at, each in committed.items()}
            return await measure(self.cluster, offsets, self._clock.wall_ms())

        return await self.cluster.retrying(attempt, what=f"the lag of group {group_id} was not measured")

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Reset the offsets of a group without members; raise UnknownMemberId if it has some."""
        await Groups(self.cluster).commit(group_id, offsets)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of topics that the group is not subscribed to."""
        await Groups(self.cluster).delete_offsets(group_id, partitions)

    async def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        await Groups(self.cluster).delete(group_id)

    async def remove_group_members(
        self, group_id: str, member_ids: Iterable[str] = (), *, instance_ids: Iterable[str] = ()
    ) -> dict[str, KafkaError | None]:
        """Remove members from a classic group, static ones by instance id; return the error of each."""
        return await remove_members(self.cluster, group_id, member_ids, instance_ids)

    # The cluster.

    async def describe_cluster(self) -> ClusterInfo:
        """Return the brokers, the controller, the partitions and the ongoing reassignments."""
        return await ClusterAdmin(self.cluster).describe()

    async def describe_partitions(self, topics: Sequence[str]) -> dict[TopicPartition, PartitionDescription]:
        """Return the partitions of topics, with their eligible leader replicas (KIP-966)."""
        return await describe_partitions(self.cluster, topics)

    async def describe_log_dirs(self, node_ids: Iterable[int] | None = None) -> dict[int, list[LogDirectory]]:
        """Return the log directories of these brokers, or of all, with the sizes of their replicas."""
        return await describe_log_dirs(self.cluster, node_ids)

    async def alter_replica_log_dirs(
        self, node_id: int, directories: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin to move replicas of a broker to other directories of it; return the error of each, or
        None.
        """
        return await alter_replica_log_dirs(self.cluster, node_id, directories)

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> Outcomes:
        """Elect preferred leaders (None: of all partitions); with `unclean`, any replica if there is none."""
        return await ClusterAdmin(self.cluster).elect_leaders(partitions, unclean=unclean)

    async def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Start to reassign partitions to these brokers, the preferred leader first; None cancels it."""
        return await ClusterAdmin(self.cluster).reassign(targets)

    async def list_reassignments(self) -> dict[TopicPartition, MoveInfo]:
        """Return the ongoing reassignments."""
        return await ClusterAdmin(self.cluster).moves()

    async def unregister_broker(self, node_id: int) -> None:
        """Unregister a broker that is gone for good."""
        await ClusterAdmin(self.cluster).unregister(node_id)

    async def features(self) -> dict[str, int]:
        """Return the finalized features of the cluster and their levels."""
        await self.cluster.retrying(self.cluster.any_broker, what="the features could not be described")
        return dict(self.cluster.features)

    # Quotas.

    async def list_quotas(
        self,
        entity: Mapping[str, str | None] | None = None,
        *,
        types: Iterable[str] = (),
        strict: bool = False,
    ) -> list[EntityQuotas]:
        """Return the quotas of the entities with these names (None: the default) and types, or of all.

        Entities that have more types match too, unless `strict`.
        """
        return await list_quotas(self.cluster, entity or {}, types, strict=strict)

    async def alter_quotas(
        self,
        entity: Mapping[str, str | None],
        *,
        set_to: Mapping[str, float] | None = None,
        unset: Sequence[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set quotas of an entity such as `{"user": "alice", "client-id": None}`, and remove others."""
        await alter_quotas(self.cluster, entity, set_to or {}, unset, validate_only=validate_only)

    # Security.

    async def describe_scram_users(self, users: Iterable[str] = ()) -> dict[str, dict[str, int]]:
        """Return the SCRAM mechanisms, with their iterations, of these users or of all."""
        return await describe_scram_users(self.cluster, users)

    async def set_scram_password(
        self, user: str, password: str, *, mechanism: str = "SCRAM-SHA-512", iterations: int = ITERATIONS
    ) -> None:
        """Create a SCRAM user, or set another password; the password itself is not sent."""
        await set_scram_password(self.cluster, user, password, mechanism, iterations)

    async def remove_scram_user(self, user: str, *, mechanism: str | None = None) -> None:
        """Remove a SCRAM user, or its credential for one mechanism; raise ResourceNotFound if none exists."""
        await remove_scram_user(self.cluster, user, mechanism)

    async def create_acls(self, acls: Iterable[Acl]) -> list[KafkaError | None]:
        """Create ACLs; return the error of each, in order."""
        return await Acls(self.cluster).create(tuple(acls))

    async def describe_acls(self, **wanted: Unpack[AclQuery]) -> list[Acl]:
        """Return the ACLs that have all of these values, or all ACLs."""
        return await Acls(self.cluster).describe(**wanted)

    async def delete_acls(self, **wanted: Unpack[AclQuery]) -> list[Acl]:
        """Delete the ACLs that have all of these values, or all ACLs; return them."""
        return await Acls(self.cluster).delete(**wanted)

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
    ) -> DelegationTokenInfo:
        """Create a delegation token, for this client's principal or for another owner."""
        return await DelegationTokens(self.cluster).create(owner, renewers, max_lifetime_ms)

    async def renew_delegation_token(self, hmac: bytes, period_ms: int | None = None) -> int:
        """Extend the validity of a delegation token; return when it ends, in milliseconds since 1970."""
        return await DelegationTokens(self.cluster).renew(hmac, period_ms)

    async def expire_delegation_token(self, hmac: bytes, period_ms: int | None = None) -> int:
        """End the validity of a delegation token after a time, or (None) now; return when it ends."""
        return await DelegationTokens(self.cluster).expire(hmac, period_ms)

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None
    ) -> list[DelegationTokenInfo]:
        """Return the delegation tokens of these owners, or all that the client may see."""
        return await DelegationTokens(self.cluster).describe(owners)

    # Transactions.

    async def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        *,
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """Return the transactional ids that match all filters, and whether each is prepared."""
        return await Transactions(self.cluster).list(
            states, producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
        )

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Describe a transactional id; raise TransactionalIdNotFound if it does not exist."""
        return await Transactions(self.cluster).describe(transactional_id)

    async def abort_transaction(self, transactional_id: str) -> None:
        """Abort the open or prepared transaction of a transactional id, and fence its producer."""
        await Transactions(self.cluster).abort(transactional_id)

    async def open_transactions(self, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
        """Return the open transactions of partitions, from their leaders."""
        return list(await Transactions(self.cluster).open_in(partitions))

    async def hanging_transactions(
        self, partitions: Iterable[TopicPartition], *, older_than_ms: int = 900_000
    ) -> list[OpenTransaction]:
        """Return the hanging transactions of partitions: old, and unknown to any coordinator."""
        wanted = list(partitions)

        async def attempt() -> list[OpenTransaction]:
            found = await Transactions(self.cluster).hanging(
                wanted, older_than_ms=older_than_ms, now_ms=self._clock.wall_ms()
            )
            return list(found)

        return await self.cluster.retrying(attempt, what="hanging transactions were not searched for")

    async def abort_open_transaction(self, opened: OpenTransaction) -> None:
        """Write an abort marker for a hanging transaction, which no coordinator will end."""
        await Transactions(self.cluster).abort_in(opened)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[PartitionProducer]]:
        """Return the producer states of partitions, from their leaders."""
        return await describe_producers(self.cluster, partitions)
