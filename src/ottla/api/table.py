"""The table of APIs; dispatch, ApiVersions and the docs page are derived from it.

A row names the function that serves a range of versions: `FILE.FUNCTION` of this package, imported when its
API is first used, so that a broker starts without the message classes of every API. A function works on the
message classes of the newest version in its range: older requests are converted to it, and its response is
converted back. Where a version changed the shape of a message, an API has a row for each shape.

`NEEDS` names the operations that an API needs, and on which resources: handlers, docs/security-acls.md and
the tests of authorization are derived from it (support/authorization.py).

There are two kinds of rows: `message` functions take a request and return a response (or an awaitable of
one); `bytes` functions (Produce and Fetch, which carry the records, and very long responses) decode and
encode themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.common.file_range import FileRange
from ottla.protocol.api_keys import ApiKey
from ottla.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.api.support.context import RequestContext

Reply = bytes | Sequence[bytes | memoryview | FileRange]
Handler = Callable[[Any, "RequestContext"], Any]
RawHandler = Callable[[memoryview, int, "RequestContext"], Reply | Awaitable[Reply | None] | None]

MESSAGE, BYTES = "message", "bytes"


class Range(NamedTuple):
    """One row: the versions that one function serves."""

    key: ApiKey
    min_version: int
    max_version: int
    kind: str
    handler_name: str
    since: str = "0.1.0"

    @property
    def module(self) -> str:
        """Return the name of the file that serves it."""
        return f"ottla.api.{self.handler_name.partition('.')[0]}"

    def load(self) -> Callable[..., Any]:
        """Import the function."""
        function: Callable[..., Any] = getattr(
            import_module(self.module), self.handler_name.partition(".")[2]
        )
        return function


_K = ApiKey
ROWS = (
    Range(_K.PRODUCE, 3, 13, BYTES, "produce.produce"),
    Range(_K.FETCH, 4, 18, BYTES, "fetch.fetch"),
    Range(_K.LIST_OFFSETS, 1, 11, MESSAGE, "list_offsets.list_offsets"),
    Range(_K.METADATA, 11, 13, MESSAGE, "metadata.metadata"),
    Range(_K.METADATA, 0, 10, MESSAGE, "metadata.metadata_with_cluster_operations"),
    Range(_K.OFFSET_COMMIT, 10, 10, MESSAGE, "offset_commit.offset_commit_by_id"),
    Range(_K.OFFSET_COMMIT, 5, 9, MESSAGE, "offset_commit.offset_commit"),
    Range(_K.OFFSET_COMMIT, 2, 4, MESSAGE, "offset_commit.offset_commit_for_a_time"),
    Range(_K.OFFSET_FETCH, 10, 10, MESSAGE, "offset_fetch.offset_fetch_by_id"),
    Range(_K.OFFSET_FETCH, 8, 9, MESSAGE, "offset_fetch.offset_fetch"),
    Range(_K.OFFSET_FETCH, 1, 7, MESSAGE, "offset_fetch.offset_fetch_alone"),
    Range(_K.FIND_COORDINATOR, 4, 6, MESSAGE, "find_coordinator.find_coordinators"),
    Range(_K.FIND_COORDINATOR, 0, 3, MESSAGE, "find_coordinator.find_coordinator"),
    Range(_K.JOIN_GROUP, 0, 9, MESSAGE, "join_group.join_group"),
    Range(_K.HEARTBEAT, 0, 4, MESSAGE, "heartbeat.heartbeat"),
    Range(_K.LEAVE_GROUP, 3, 5, MESSAGE, "leave_group.leave_group"),
    Range(_K.LEAVE_GROUP, 0, 2, MESSAGE, "leave_group.leave_group_alone"),
    Range(_K.SYNC_GROUP, 0, 5, MESSAGE, "sync_group.sync_group"),
    Range(_K.DESCRIBE_GROUPS, 0, 6, MESSAGE, "describe_groups.describe_groups"),
    Range(_K.LIST_GROUPS, 0, 5, MESSAGE, "list_groups.list_groups"),
    Range(_K.SASL_HANDSHAKE, 0, 1, MESSAGE, "sasl_handshake.sasl_handshake"),
    Range(_K.API_VERSIONS, 0, 4, MESSAGE, "api_versions.api_versions"),
    Range(_K.CREATE_TOPICS, 2, 7, MESSAGE, "create_topics.create_topics"),
    Range(_K.DELETE_TOPICS, 6, 6, MESSAGE, "delete_topics.delete_topics"),
    Range(_K.DELETE_TOPICS, 1, 5, MESSAGE, "delete_topics.delete_topics_by_name"),
    Range(_K.DELETE_RECORDS, 0, 2, MESSAGE, "delete_records.delete_records"),
    Range(_K.INIT_PRODUCER_ID, 0, 6, MESSAGE, "init_producer_id.init_producer_id"),
    Range(_K.ADD_PARTITIONS_TO_TXN, 4, 5, MESSAGE, "add_partitions_to_txn.add_partitions_to_txns"),
    Range(_K.ADD_PARTITIONS_TO_TXN, 0, 3, MESSAGE, "add_partitions_to_txn.add_partitions_to_txn"),
    Range(_K.ADD_OFFSETS_TO_TXN, 0, 4, MESSAGE, "add_offsets_to_txn.add_offsets_to_txn"),
    Range(_K.END_TXN, 0, 5, MESSAGE, "end_txn.end_txn"),
    Range(_K.WRITE_TXN_MARKERS, 1, 2, MESSAGE, "write_txn_markers.write_txn_markers"),
    Range(_K.TXN_OFFSET_COMMIT, 0, 5, MESSAGE, "txn_offset_commit.txn_offset_commit"),
    Range(_K.DESCRIBE_PRODUCERS, 0, 0, MESSAGE, "describe_producers.describe_producers"),
    Range(_K.OFFSET_FOR_LEADER_EPOCH, 2, 4, MESSAGE, "offset_for_leader_epoch.offset_for_leader_epoch"),
    Range(_K.DESCRIBE_ACLS, 1, 3, MESSAGE, "describe_acls.describe_acls"),
    Range(_K.CREATE_ACLS, 1, 3, MESSAGE, "create_acls.create_acls"),
    Range(_K.DELETE_ACLS, 1, 3, MESSAGE, "delete_acls.delete_acls"),
    Range(_K.DESCRIBE_CONFIGS, 1, 4, BYTES, "describe_configs.describe_configs"),
    Range(_K.ALTER_CONFIGS, 0, 2, MESSAGE, "alter_configs.alter_configs"),
    Range(_K.ALTER_REPLICA_LOG_DIRS, 1, 2, MESSAGE, "alter_replica_log_dirs.alter_replica_log_dirs"),
    Range(_K.DESCRIBE_LOG_DIRS, 1, 5, MESSAGE, "describe_log_dirs.describe_log_dirs"),
    Range(_K.SASL_AUTHENTICATE, 0, 2, MESSAGE, "sasl_authenticate.sasl_authenticate"),
    Range(_K.CREATE_PARTITIONS, 0, 3, MESSAGE, "create_partitions.create_partitions"),
    Range(_K.CREATE_DELEGATION_TOKEN, 1, 3, MESSAGE, "create_delegation_token.create_delegation_token"),
    Range(_K.RENEW_DELEGATION_TOKEN, 1, 2, MESSAGE, "renew_delegation_token.renew_delegation_token"),
    Range(_K.EXPIRE_DELEGATION_TOKEN, 1, 2, MESSAGE, "expire_delegation_token.expire_delegation_token"),
    Range(_K.DESCRIBE_DELEGATION_TOKEN, 1, 3, MESSAGE, "describe_delegation_token.describe_delegation_token"),
    Range(_K.DELETE_GROUPS, 0, 2, MESSAGE, "delete_groups.delete_groups"),
    Range(
        _K.INCREMENTAL_ALTER_CONFIGS,
        0,
        1,
        MESSAGE,
        "incremental_alter_configs.incremental_alter_configs",
        "0.1.0",
    ),
    Range(_K.ELECT_LEADERS, 0, 2, MESSAGE, "elect_leaders.elect_leaders"),
    Range(
        _K.ALTER_PARTITION_REASSIGNMENTS,
        0,
        1,
        MESSAGE,
        "alter_partition_reassignments.alter_partition_reassignments",
    ),
    Range(
        _K.LIST_PARTITION_REASSIGNMENTS,
        0,
        0,
        MESSAGE,
        "list_partition_reassignments.list_partition_reassignments",
    ),
    Range(_K.OFFSET_DELETE, 0, 0, MESSAGE, "offset_delete.offset_delete"),
    Range(
        _K.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        0,
        MESSAGE,
        "describe_user_scram_credentials.describe_user_scram_credentials",
        "0.1.0",
    ),
    Range(
        _K.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        0,
        MESSAGE,
        "alter_user_scram_credentials.alter_user_scram_credentials",
        "0.1.0",
    ),
    Range(_K.DESCRIBE_CLIENT_QUOTAS, 0, 1, MESSAGE, "describe_client_quotas.describe_client_quotas"),
    Range(_K.ALTER_CLIENT_QUOTAS, 0, 1, MESSAGE, "alter_client_quotas.alter_client_quotas"),
    Range(_K.ALTER_PARTITION, 3, 3, MESSAGE, "alter_partition.alter_partition"),
    Range(_K.UPDATE_FEATURES, 2, 2, MESSAGE, "update_features.update_features"),
    Range(_K.UPDATE_FEATURES, 0, 1, MESSAGE, "update_features.update_features_one_by_one"),
    Range(_K.ENVELOPE, 0, 0, MESSAGE, "envelope.envelope"),
    Range(_K.DESCRIBE_CLUSTER, 0, 2, MESSAGE, "describe_cluster.describe_cluster"),
    Range(_K.UNREGISTER_BROKER, 0, 0, MESSAGE, "unregister_broker.unregister_broker"),
    Range(_K.DESCRIBE_TRANSACTIONS, 0, 0, MESSAGE, "describe_transactions.describe_transactions"),
    Range(_K.LIST_TRANSACTIONS, 0, 2, MESSAGE, "list_transactions.list_transactions"),
    Range(_K.ALLOCATE_PRODUCER_IDS, 0, 0, MESSAGE, "allocate_producer_ids.allocate_producer_ids"),
    Range(
        _K.CONSUMER_GROUP_HEARTBEAT,
        0,
        1,
        MESSAGE,
        "consumer_group_heartbeat.consumer_group_heartbeat",
        "0.1.0",
    ),
    Range(_K.CONSUMER_GROUP_DESCRIBE, 0, 1, MESSAGE, "consumer_group_describe.consumer_group_describe"),
    Range(
        _K.DESCRIBE_TOPIC_PARTITIONS,
        0,
        0,
        MESSAGE,
        "describe_topic_partitions.describe_topic_partitions",
        "0.1.0",
    ),
    Range(_K.LIST_CONFIG_RESOURCES, 0, 1, MESSAGE, "list_config_resources.list_config_resources"),
    Range(_K.PREPARE_TRANSACTION, 0, 0, MESSAGE, "prepare_transaction.prepare_transaction"),
    Range(_K.MEASURE_LAG, 0, 0, MESSAGE, "measure_lag.measure_lag"),
    Range(_K.CONDITIONAL_APPEND, 0, 0, MESSAGE, "conditional_append.conditional_append"),
    Range(_K.DESCRIBE_BROKER_HEALTH, 0, 0, MESSAGE, "describe_broker_health.describe_broker_health"),
    Range(_K.DUMP_METADATA, 0, 0, MESSAGE, "dump_metadata.dump_metadata"),
    Range(_K.RESTORE_METADATA, 0, 0, MESSAGE, "restore_metadata.restore_metadata"),
)

PRELOADED = frozenset(
    {
        _K.PRODUCE,
        _K.FETCH,
        _K.LIST_OFFSETS,
        _K.METADATA,
        _K.OFFSET_COMMIT,
        _K.OFFSET_FETCH,
        _K.FIND_COORDINATOR,
        _K.JOIN_GROUP,
        _K.SYNC_GROUP,
        _K.HEARTBEAT,
        _K.LEAVE_GROUP,
        _K.CONSUMER_GROUP_HEARTBEAT,
        _K.API_VERSIONS,
        _K.INIT_PRODUCER_ID,
        _K.ADD_PARTITIONS_TO_TXN,
        _K.ADD_OFFSETS_TO_TXN,
        _K.TXN_OFFSET_COMMIT,
        _K.END_TXN,
        _K.WRITE_TXN_MARKERS,
        _K.OFFSET_FOR_LEADER_EPOCH,
        _K.ALTER_PARTITION,
    }
)
"""APIs of producers, consumers and replicas: imported before the first request. The others, which tools call,
are imported later, or by their first request, which then takes a few milliseconds longer."""


class Need(NamedTuple):
    """An operation on a resource that a request needs."""

    operation: Operation
    resource: ResourceType
    when: str = ""
    """In which case, if not in every one; for the docs."""


_O, _R = Operation, ResourceType
_TOPIC, _GROUP, _CLUSTER, _TXN = _R.TOPIC, _R.GROUP, _R.CLUSTER, _R.TRANSACTIONAL_ID
_FROM_BROKERS = (Need(_O.CLUSTER_ACTION, _CLUSTER),)
_MEMBER = (Need(_O.READ, _GROUP),)

NEEDS: dict[ApiKey, tuple[Need, ...]] = {
    _K.PRODUCE: (
        Need(_O.WRITE, _TOPIC),
        Need(_O.WRITE, _TXN, "for transactional batches"),
        Need(_O.CLUSTER_ACTION, _CLUSTER, "also, for `__audit`"),
    ),
    _K.FETCH: (Need(_O.READ, _TOPIC), Need(_O.CLUSTER_ACTION, _CLUSTER, "instead, for followers")),
    _K.LIST_OFFSETS: (Need(_O.DESCRIBE, _TOPIC),),
    _K.METADATA: (
        Need(_O.DESCRIBE, _TOPIC, "others are left out of the list of all topics"),
        Need(_O.CREATE, _TOPIC, "to create a missing topic, unless CREATE on the cluster is allowed"),
        Need(_O.CREATE, _CLUSTER, "to create a missing topic"),
        Need(_O.DESCRIBE, _CLUSTER, "for the authorized operations of the cluster"),
    ),
    _K.OFFSET_COMMIT: (Need(_O.READ, _GROUP), Need(_O.READ, _TOPIC)),
    _K.OFFSET_FETCH: (
        Need(_O.DESCRIBE, _GROUP),
        Need(_O.DESCRIBE, _TOPIC, "others are left out if all topics are requested"),
    ),
    _K.FIND_COORDINATOR: (
        Need(_O.DESCRIBE, _GROUP, "for groups"),
        Need(_O.DESCRIBE, _TXN, "for transactional ids"),
    ),
    _K.JOIN_GROUP: _MEMBER,
    _K.HEARTBEAT: _MEMBER,
    _K.LEAVE_GROUP: _MEMBER,
    _K.SYNC_GROUP: _MEMBER,
    _K.DESCRIBE_GROUPS: (Need(_O.DESCRIBE, _GROUP),),
    _K.LIST_GROUPS: (
        Need(_O.DESCRIBE, _CLUSTER, "to list every group"),
        Need(_O.DESCRIBE, _GROUP, "otherwise; others are left out"),
    ),
    _K.SASL_HANDSHAKE: (),
    _K.API_VERSIONS: (),
    _K.CREATE_TOPICS: (
        Need(_O.CREATE, _CLUSTER, "for all topics"),
        Need(_O.CREATE, _TOPIC, "otherwise"),
        Need(_O.DESCRIBE_CONFIGS, _TOPIC, "for the configs in the response"),
    ),
    _K.DELETE_TOPICS: (
        Need(_O.DELETE, _TOPIC),
        Need(_O.DESCRIBE, _TOPIC, "also, which DELETE implies unless it is denied"),
    ),
    _K.DELETE_RECORDS: (Need(_O.DELETE, _TOPIC),),
    _K.INIT_PRODUCER_ID: (
        Need(_O.WRITE, _TXN, "with a transactional id"),
        Need(_O.TWO_PHASE_COMMIT, _TXN, "with two-phase commit"),
        Need(_O.IDEMPOTENT_WRITE, _CLUSTER, "without a transactional id, or"),
        Need(_O.WRITE, _TOPIC, "on any topic, without a transactional id"),
    ),
    _K.OFFSET_FOR_LEADER_EPOCH: (
        Need(_O.DESCRIBE, _TOPIC),
        Need(_O.CLUSTER_ACTION, _CLUSTER, "instead, for followers"),
    ),
    _K.ADD_PARTITIONS_TO_TXN: (
        Need(_O.WRITE, _TXN, "until v3"),
        Need(_O.WRITE, _TOPIC, "until v3"),
        Need(_O.CLUSTER_ACTION, _CLUSTER, "from v4 on, which brokers send"),
    ),
    _K.ADD_OFFSETS_TO_TXN: (Need(_O.WRITE, _TXN), Need(_O.READ, _GROUP)),
    _K.END_TXN: (Need(_O.WRITE, _TXN),),
    _K.WRITE_TXN_MARKERS: (
        Need(_O.CLUSTER_ACTION, _CLUSTER),
        Need(_O.ALTER, _CLUSTER, "instead, to abort a hanging transaction"),
    ),
    _K.TXN_OFFSET_COMMIT: (Need(_O.WRITE, _TXN), Need(_O.READ, _GROUP), Need(_O.READ, _TOPIC)),
    _K.DESCRIBE_ACLS: (Need(_O.DESCRIBE, _CLUSTER),),
    _K.CREATE_ACLS: (Need(_O.ALTER, _CLUSTER),),
    _K.DELETE_ACLS: (Need(_O.ALTER, _CLUSTER),),
    _K.DESCRIBE_CONFIGS: (
        Need(_O.DESCRIBE_CONFIGS, _CLUSTER, "for brokers and client metrics"),
        Need(_O.DESCRIBE_CONFIGS, _TOPIC, "for topics"),
        Need(_O.DESCRIBE_CONFIGS, _GROUP, "for groups"),
    ),
    _K.ALTER_CONFIGS: (
        Need(_O.ALTER_CONFIGS, _CLUSTER, "for brokers and client metrics"),
        Need(_O.ALTER_CONFIGS, _TOPIC, "for topics"),
        Need(_O.ALTER_CONFIGS, _GROUP, "for groups"),
    ),
    _K.ALTER_REPLICA_LOG_DIRS: (Need(_O.ALTER, _CLUSTER),),
    _K.DESCRIBE_LOG_DIRS: (Need(_O.DESCRIBE, _CLUSTER),),
    _K.SASL_AUTHENTICATE: (),
    _K.CREATE_PARTITIONS: (Need(_O.ALTER, _TOPIC),),
    _K.CREATE_DELEGATION_TOKEN: (Need(_O.CREATE_TOKENS, _R.USER, "for another owner"),),
    _K.RENEW_DELEGATION_TOKEN: (),
    _K.EXPIRE_DELEGATION_TOKEN: (),
    _K.DESCRIBE_DELEGATION_TOKEN: (
        Need(_O.DESCRIBE, _R.DELEGATION_TOKEN, "for tokens of others, or"),
        Need(_O.DESCRIBE_TOKENS, _R.USER, "for the tokens of an owner"),
    ),
    _K.DELETE_GROUPS: (Need(_O.DELETE, _GROUP),),
    _K.ELECT_LEADERS: (Need(_O.ALTER, _CLUSTER),),
    _K.INCREMENTAL_ALTER_CONFIGS: (
        Need(_O.ALTER_CONFIGS, _CLUSTER, "for brokers and client metrics"),
        Need(_O.ALTER_CONFIGS, _TOPIC, "for topics"),
        Need(_O.ALTER_CONFIGS, _GROUP, "for groups"),
    ),
    _K.ALTER_PARTITION_REASSIGNMENTS: (Need(_O.ALTER, _CLUSTER),),
    _K.LIST_PARTITION_REASSIGNMENTS: (Need(_O.DESCRIBE, _CLUSTER),),
    _K.OFFSET_DELETE: (Need(_O.DELETE, _GROUP), Need(_O.READ, _TOPIC)),
    _K.DESCRIBE_CLIENT_QUOTAS: (Need(_O.DESCRIBE_CONFIGS, _CLUSTER),),
    _K.ALTER_CLIENT_QUOTAS: (Need(_O.ALTER_CONFIGS, _CLUSTER),),
    _K.DESCRIBE_USER_SCRAM_CREDENTIALS: (Need(_O.DESCRIBE, _CLUSTER),),
    _K.ALTER_USER_SCRAM_CREDENTIALS: (Need(_O.ALTER, _CLUSTER),),
    _K.ALTER_PARTITION: _FROM_BROKERS,
    _K.UPDATE_FEATURES: (Need(_O.ALTER, _CLUSTER),),
    _K.ENVELOPE: _FROM_BROKERS,
    _K.DESCRIBE_CLUSTER: (Need(_O.DESCRIBE, _CLUSTER, "for the authorized operations of the cluster"),),
    _K.DESCRIBE_PRODUCERS: (Need(_O.READ, _TOPIC),),
    _K.UNREGISTER_BROKER: (Need(_O.ALTER, _CLUSTER),),
    _K.DESCRIBE_TRANSACTIONS: (
        Need(_O.DESCRIBE, _TXN),
        Need(_O.DESCRIBE, _TOPIC, "others are left out of the transaction's partitions"),
    ),
    _K.LIST_TRANSACTIONS: (Need(_O.DESCRIBE, _TXN, "others are left out"),),
    _K.ALLOCATE_PRODUCER_IDS: _FROM_BROKERS,
    _K.CONSUMER_GROUP_HEARTBEAT: (
        Need(_O.READ, _GROUP),
        Need(_O.DESCRIBE, _TOPIC, "for each subscribed topic; others do not match a regular expression"),
    ),
    _K.CONSUMER_GROUP_DESCRIBE: (
        Need(_O.DESCRIBE, _GROUP),
        Need(_O.DESCRIBE, _TOPIC, "for every topic that the group reads"),
    ),
    _K.DESCRIBE_TOPIC_PARTITIONS: (
        Need(_O.DESCRIBE, _TOPIC, "others are left out of the list of all topics"),
    ),
    _K.LIST_CONFIG_RESOURCES: (Need(_O.DESCRIBE_CONFIGS, _CLUSTER),),
    _K.PREPARE_TRANSACTION: (Need(_O.WRITE, _TXN), Need(_O.TWO_PHASE_COMMIT, _TXN)),
    _K.MEASURE_LAG: _FROM_BROKERS,
    _K.CONDITIONAL_APPEND: (Need(_O.WRITE, _TOPIC),),
    _K.DESCRIBE_BROKER_HEALTH: (Need(_O.DESCRIBE, _CLUSTER),),
    _K.DUMP_METADATA: (Need(_O.ALTER, _CLUSTER),),
    _K.RESTORE_METADATA: (Need(_O.ALTER, _CLUSTER),),
}
"""What each API needs. The first entry of a resource type is the operation that a handler asks for."""

OPERATIONS: dict[tuple[int, int], Operation] = {
    (key, need.resource): need.operation for key, needs in NEEDS.items() for need in reversed(needs)
}
"""The operation that an API needs on a resource of a type."""

ADVERTISED_FROM = {ApiKey.PRODUCE: 0}
"""APIs that ApiVersions advertises from a lower version than is served: old librdkafka tests for v0 of
Produce, and then uses newer ones.
"""


@dataclass(frozen=True, slots=True)
class Api:
    """All rows of one API."""

    key: ApiKey
    ranges: tuple[Range, ...]

    @property
    def name(self) -> str:
        """Return Kafka's name of the API: `CreateTopics`."""
        return "".join(word.capitalize() for word in self.key.name.split("_"))

    @property
    def min_version(self) -> int:
        """Return the oldest version that is served."""
        return min(each.min_version for each in self.ranges)

    @property
    def max_version(self) -> int:
        """Return the newest version that is served."""
        return max(each.max_version for each in self.ranges)

    @property
    def advertised_min(self) -> int:
        """Return the oldest version that ApiVersions advertises."""
        return ADVERTISED_FROM.get(self.key, self.min_version)

    def range_for(self, version: int) -> Range | None:
        """Return the range that serves `version`, or None."""
        for each in self.ranges:
            if each.min_version <= version <= each.max_version:
                return each
        return None


APIS: dict[int, Api] = {
    key: Api(key, tuple(row for row in ROWS if row.key == key)) for key in sorted({row.key for row in ROWS})
}


def advertised() -> Iterator[tuple[int, int, int]]:
    """Yield (key, oldest, newest) of every API, as ApiVersions advertises it."""
    for key, row in APIS.items():
        yield key, row.advertised_min, row.max_version
