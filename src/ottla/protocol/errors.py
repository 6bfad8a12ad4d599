"""Kafka's error codes, one exception class each: raise the class, and its code reaches the client.

A handler raises `UnknownTopicOrPartition("orders")`; any other exception from a handler is a bug of ours,
answered with UNKNOWN_SERVER_ERROR and logged. Every concrete class is in `ERRORS` by its code; a code that is
declared twice fails at import. Classes exist for the codes that Ottla raises; `ErrorCode` (from kio) has all
of them. `error_page` generates docs/errors.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import ClassVar

from kio.schema.errors import ErrorCode

ERRORS: dict[ErrorCode, type[KafkaError]] = {}


class KafkaError(Exception):
    """The base of every error that has a protocol code."""

    code: ClassVar[ErrorCode] = ErrorCode.unknown_server_error
    record_errors: Sequence[tuple[int, str | None]] = ()
    """The rejected records of a batch, by their index in it, and why (KIP-467)."""

    def __init_subclass__(cls, code: ErrorCode) -> None:
        if code in ERRORS:
            raise TypeError(f"{cls.__name__} and {ERRORS[code].__name__} both claim {code.name}")
        cls.code = code
        ERRORS[code] = cls

    @property
    def message(self) -> str | None:
        """Return the error message for the client, if the response has a field for it."""
        return str(self) or None


class UnknownServerError(KafkaError, code=ErrorCode.unknown_server_error):
    """An internal error of the broker."""


class OffsetOutOfRange(KafkaError, code=ErrorCode.offset_out_of_range):
    """The offset is below the log start or above the log end."""


class CorruptMessage(KafkaError, code=ErrorCode.corrupt_message):
    """A batch fails its checksum, or its lengths are wrong."""


class UnknownTopicOrPartition(KafkaError, code=ErrorCode.unknown_topic_or_partition):
    """There is no such topic or partition."""


class InvalidFetchSize(KafkaError, code=ErrorCode.invalid_fetch_size):
    """A fetch requested an invalid size."""


class LeaderNotAvailable(KafkaError, code=ErrorCode.leader_not_available):
    """The partition has no leader now."""


class NotLeaderOrFollower(KafkaError, code=ErrorCode.not_leader_or_follower):
    """This broker does not lead the partition."""


class RequestTimedOut(KafkaError, code=ErrorCode.request_timed_out):
    """The work was not done within the client's timeout."""


class BrokerNotAvailable(KafkaError, code=ErrorCode.broker_not_available):
    """There is no such broker now."""


class ReplicaNotAvailable(KafkaError, code=ErrorCode.replica_not_available):
    """This broker's replica cannot serve the request now."""


class MessageTooLarge(KafkaError, code=ErrorCode.message_too_large):
    """A batch is larger than max.message.bytes."""


class OffsetMetadataTooLarge(KafkaError, code=ErrorCode.offset_metadata_too_large):
    """The metadata of a committed offset is larger than offset.metadata.max.bytes."""


class NetworkException(KafkaError, code=ErrorCode.network_exception):
    """Another broker cannot be reached, or the connection to it broke."""


class CoordinatorLoadInProgress(KafkaError, code=ErrorCode.coordinator_load_in_progress):
    """The coordinator is loading its partition; retry soon."""


class CoordinatorNotAvailable(KafkaError, code=ErrorCode.coordinator_not_available):
    """The coordinator is not available yet."""


class NotCoordinator(KafkaError, code=ErrorCode.not_coordinator):
    """Another broker coordinates this group."""


class InvalidTopicException(KafkaError, code=ErrorCode.invalid_topic_exception):
    """The topic name is not allowed."""


class RecordListTooLarge(KafkaError, code=ErrorCode.record_list_too_large):
    """A batch is larger than a segment."""


class InvalidRequiredAcks(KafkaError, code=ErrorCode.invalid_required_acks):
    """acks is none of -1, 0 and 1."""


class IllegalGeneration(KafkaError, code=ErrorCode.illegal_generation):
    """The group has another generation."""


class InconsistentGroupProtocol(KafkaError, code=ErrorCode.inconsistent_group_protocol):
    """The member shares no protocol with the rest of the group, or names none."""


class InvalidGroupId(KafkaError, code=ErrorCode.invalid_group_id):
    """The group id is not allowed."""


class UnknownMemberId(KafkaError, code=ErrorCode.unknown_member_id):
    """The group does not have this member (any more); it must join again."""


class InvalidSessionTimeout(KafkaError, code=ErrorCode.invalid_session_timeout):
    """The session timeout is outside group.min.session.timeout.ms and group.max.session.timeout.ms."""


class RebalanceInProgress(KafkaError, code=ErrorCode.rebalance_in_progress):
    """The group is rebalancing; its members must join again."""


class NotEnoughReplicas(KafkaError, code=ErrorCode.not_enough_replicas):
    """Fewer replicas are in sync than min.insync.replicas."""


class NotEnoughReplicasAfterAppend(KafkaError, code=ErrorCode.not_enough_replicas_after_append):
    """The records are in the log, but too few replicas are in sync to commit them."""


class TopicAuthorizationFailed(KafkaError, code=ErrorCode.topic_authorization_failed):
    """The principal may not do this with the topic."""


class GroupAuthorizationFailed(KafkaError, code=ErrorCode.group_authorization_failed):
    """The principal may not do this with the group."""


class ClusterAuthorizationFailed(KafkaError, code=ErrorCode.cluster_authorization_failed):
    """The principal may not do this with the cluster."""


class InvalidTimestamp(KafkaError, code=ErrorCode.invalid_timestamp):
    """A record's timestamp is further from now than the topic allows."""


class UnsupportedSaslMechanism(KafkaError, code=ErrorCode.unsupported_sasl_mechanism):
    """The listener does not offer the SASL mechanism."""


class IllegalSaslState(KafkaError, code=ErrorCode.illegal_sasl_state):
    """The request does not fit the state of the client's authentication."""


class SaslAuthenticationFailed(KafkaError, code=ErrorCode.sasl_authentication_failed):
    """The client could not prove who it is."""


class ResourceNotFound(KafkaError, code=ErrorCode.resource_not_found):
    """There is no such user or resource."""


class DuplicateResource(KafkaError, code=ErrorCode.duplicate_resource):
    """The request names a user or resource more than once."""


class UnacceptableCredential(KafkaError, code=ErrorCode.unacceptable_credential):
    """The credential is too weak, or not valid."""


class UnsupportedVersion(KafkaError, code=ErrorCode.unsupported_version):
    """The API is not served in this version."""


class TopicAlreadyExists(KafkaError, code=ErrorCode.topic_already_exists):
    """A topic of this name exists."""


class InvalidPartitions(KafkaError, code=ErrorCode.invalid_partitions):
    """The number of partitions is not allowed."""


class InvalidReplicationFactor(KafkaError, code=ErrorCode.invalid_replication_factor):
    """The replication factor is below 1 or above the number of brokers."""


class InvalidReplicaAssignment(KafkaError, code=ErrorCode.invalid_replica_assignment):
    """The manual assignment names unknown brokers, repeats one, or has gaps."""


class InvalidConfig(KafkaError, code=ErrorCode.invalid_config):
    """A config key is unknown, or its value does not fit."""


class NotController(KafkaError, code=ErrorCode.not_controller):
    """This broker is not the controller."""


class InvalidRequest(KafkaError, code=ErrorCode.invalid_request):
    """The request contradicts itself or cannot be decoded."""


class UnsupportedForMessageFormat(KafkaError, code=ErrorCode.unsupported_for_message_format):
    """The batch has an old format."""


class PolicyViolation(KafkaError, code=ErrorCode.policy_violation):
    """The request is over a limit of the cluster."""


class OutOfOrderSequenceNumber(KafkaError, code=ErrorCode.out_of_order_sequence_number):
    """An idempotent producer skipped a sequence number."""


class DuplicateSequenceNumber(KafkaError, code=ErrorCode.duplicate_sequence_number):
    """A batch was appended before, too long ago to know its offset."""


class InvalidProducerEpoch(KafkaError, code=ErrorCode.invalid_producer_epoch):
    """A newer instance of this producer has taken over."""


class InvalidTxnState(KafkaError, code=ErrorCode.invalid_txn_state):
    """The transaction is not in a state that allows this."""


class InvalidProducerIdMapping(KafkaError, code=ErrorCode.invalid_producer_id_mapping):
    """The producer id is not the one of the transactional id, or is not assigned."""


class InvalidTransactionTimeout(KafkaError, code=ErrorCode.invalid_transaction_timeout):
    """The transaction timeout is longer than transaction.max.timeout.ms, or not above 0."""


class ConcurrentTransactions(KafkaError, code=ErrorCode.concurrent_transactions):
    """The last transaction of this id is still being finished; try again soon."""


class TransactionCoordinatorFenced(KafkaError, code=ErrorCode.transaction_coordinator_fenced):
    """Another broker has become the coordinator of this transaction."""


class TransactionalIdAuthorizationFailed(KafkaError, code=ErrorCode.transactional_id_authorization_failed):
    """The principal may not use this transactional id."""


class OperationNotAttempted(KafkaError, code=ErrorCode.operation_not_attempted):
    """Something else in the same request failed, so this was not tried."""


class KafkaStorageError(KafkaError, code=ErrorCode.kafka_storage_error):
    """The disk failed or is full, or the broker remembers too many producers."""


class SecurityDisabled(KafkaError, code=ErrorCode.security_disabled):
    """There is no authorizer, so there are no ACLs."""


class LogDirNotFound(KafkaError, code=ErrorCode.log_dir_not_found):
    """The broker has no such log directory."""


class DelegationTokenAuthDisabled(KafkaError, code=ErrorCode.delegation_token_auth_disabled):
    """The broker has no secret key for delegation tokens."""


class DelegationTokenNotFound(KafkaError, code=ErrorCode.delegation_token_not_found):
    """There is no such delegation token."""


class DelegationTokenOwnerMismatch(KafkaError, code=ErrorCode.delegation_token_owner_mismatch):
    """The principal neither owns the delegation token nor may renew it."""


class DelegationTokenRequestNotAllowed(KafkaError, code=ErrorCode.delegation_token_request_not_allowed):
    """Delegation tokens need an authenticated connection, and one that did not use a token itself."""


class DelegationTokenAuthorizationFailed(KafkaError, code=ErrorCode.delegation_token_authorization_failed):
    """The principal may not do this with the delegation token."""


class DelegationTokenExpired(KafkaError, code=ErrorCode.delegation_token_expired):
    """The delegation token is not valid any more."""


class InvalidPrincipalType(KafkaError, code=ErrorCode.invalid_principal_type):
    """Only principals of type User are supported."""


class NonEmptyGroup(KafkaError, code=ErrorCode.non_empty_group):
    """The group has members."""


class GroupIdNotFound(KafkaError, code=ErrorCode.group_id_not_found):
    """There is no such group."""


class UnknownProducerId(KafkaError, code=ErrorCode.unknown_producer_id):
    """The broker holds no state for this producer."""


class FetchSessionIdNotFound(KafkaError, code=ErrorCode.fetch_session_id_not_found):
    """The fetch session does not exist any more; the client starts a new one."""


class InvalidFetchSessionEpoch(KafkaError, code=ErrorCode.invalid_fetch_session_epoch):
    """The fetch session is out of sync with the client, which starts a new one."""


class TopicDeletionDisabled(KafkaError, code=ErrorCode.topic_deletion_disabled):
    """delete.topic.enable is false."""


class FencedLeaderEpoch(KafkaError, code=ErrorCode.fenced_leader_epoch):
    """The client's leader epoch is older than ours."""


class UnknownLeaderEpoch(KafkaError, code=ErrorCode.unknown_leader_epoch):
    """The client's leader epoch is newer than ours."""


class OffsetNotAvailable(KafkaError, code=ErrorCode.offset_not_available):
    """A new leader does not know its high watermark yet."""


class UnsupportedCompressionType(KafkaError, code=ErrorCode.unsupported_compression_type):
    """The codec is unknown, or not allowed in this version."""


class StaleBrokerEpoch(KafkaError, code=ErrorCode.stale_broker_epoch):
    """The request comes from an incarnation of the broker that is over."""


class MemberIdRequired(KafkaError, code=ErrorCode.member_id_required):
    """The member is to join again with the id that comes with this error."""

    def __init__(self, member_id: str) -> None:
        super().__init__("join again with this member id")
        self.member_id = member_id


class PreferredLeaderNotAvailable(KafkaError, code=ErrorCode.preferred_leader_not_available):
    """The preferred leader is not alive, or not in sync."""


class GroupMaxSizeReached(KafkaError, code=ErrorCode.group_max_size_reached):
    """The group has as many members as group.max.size allows."""


class FencedInstanceId(KafkaError, code=ErrorCode.fenced_instance_id):
    """Another process has taken over this group.instance.id."""


class EligibleLeadersNotAvailable(KafkaError, code=ErrorCode.eligible_leaders_not_available):
    """No replica lives that may lead."""


class ElectionNotNeeded(KafkaError, code=ErrorCode.election_not_needed):
    """The partition has the leader that it should have."""


class NoReassignmentInProgress(KafkaError, code=ErrorCode.no_reassignment_in_progress):
    """The replicas of the partition are not being moved."""


class GroupSubscribedToTopic(KafkaError, code=ErrorCode.group_subscribed_to_topic):
    """Members of the group are subscribed to the topic, so its offsets stay."""


class UnstableOffsetCommit(KafkaError, code=ErrorCode.unstable_offset_commit):
    """A transaction that is still open has committed an offset there; try again when it has ended."""


class ProducerFenced(KafkaError, code=ErrorCode.producer_fenced):
    """A newer producer with the same transactional id has taken over."""


class TransactionalIdNotFound(KafkaError, code=ErrorCode.transactional_id_not_found):
    """The coordinator knows nothing of this transactional id."""


class InvalidRecord(KafkaError, code=ErrorCode.invalid_record):
    """A record cannot be accepted, for example without a key on a compacted topic."""


class ThrottlingQuotaExceeded(KafkaError, code=ErrorCode.throttling_quota_exceeded):
    """The client is over its quota."""


class InvalidUpdateVersion(KafkaError, code=ErrorCode.invalid_update_version):
    """The partition has changed since the leader read it."""


class PrincipalDeserializationFailure(KafkaError, code=ErrorCode.principal_deserialization_failure):
    """A forwarded request does not name its principal."""


class UnknownTopicId(KafkaError, code=ErrorCode.unknown_topic_id):
    """There is no topic with this id."""


class BrokerIdNotRegistered(KafkaError, code=ErrorCode.broker_id_not_registered):
    """There is no broker with this id."""


class InconsistentTopicId(KafkaError, code=ErrorCode.inconsistent_topic_id):
    """The topic id in the request and that of the topic differ."""


class FetchSessionTopicIdError(KafkaError, code=ErrorCode.fetch_session_topic_id_error):
    """A fetch session mixes topic names and topic ids."""


class IneligibleReplica(KafkaError, code=ErrorCode.ineligible_replica):
    """A replica that is not alive, or another incarnation, cannot be in sync."""


class NewLeaderElected(KafkaError, code=ErrorCode.new_leader_elected):
    """The change that the leader asked for gave the partition to another."""


class MismatchedEndpointType(KafkaError, code=ErrorCode.mismatched_endpoint_type):
    """The request asked for controllers and reached a broker."""


class UnsupportedEndpointType(KafkaError, code=ErrorCode.unsupported_endpoint_type):
    """There is no such type of endpoint."""


class FencedMemberEpoch(KafkaError, code=ErrorCode.fenced_member_epoch):
    """The member's epoch is not the coordinator's; it must give up its partitions and join again."""


class UnreleasedInstanceId(KafkaError, code=ErrorCode.unreleased_instance_id):
    """Another member still uses the instance id."""


class UnsupportedAssignor(KafkaError, code=ErrorCode.unsupported_assignor):
    """The broker has no such assignor."""


class StaleMemberEpoch(KafkaError, code=ErrorCode.stale_member_epoch):
    """The member's epoch has changed; it gets the new one with a heartbeat, and retries."""


class TransactionAbortable(KafkaError, code=ErrorCode.transaction_abortable):
    """The transaction cannot continue; the producer may abort it and begin another."""


class InvalidRegularExpression(KafkaError, code=ErrorCode.invalid_regular_expression):
    """The regular expression is invalid, or too expensive."""


HEAD = """# Errors

The error codes that Ottla answers with. Clients show Kafka's name; the broker's log line and, where the
response has a place for it, the error message say more. This page is made from the code (`make docs`).

| code | name | retriable | meaning |
|---:|---|---|---|
"""


def error_page() -> str:
    """Return docs/errors.md as Markdown."""
    rows = []
    for code, error in sorted(ERRORS.items()):
        retriable = "yes" if code.retriable else "no"
        rows.append(f"| {int(code)} | {code.name.upper()} | {retriable} | {inspect.getdoc(error)} |")
    return HEAD + "\n".join(rows) + "\n"
