"""Broker keys of the transaction coordinator: its topic, its timeouts, and two-phase commit."""

from __future__ import annotations

from ottla.common.config.declaration import Config, Importance, Key, Update
from ottla.common.config.types import BOOLEAN, INT, LIST, SHORT, at_least
from ottla.common.units import DAY_MS, HOUR_MS, MIB, MINUTE_MS, SECOND_MS

HIGH, LOW = Importance.HIGH, Importance.LOW
ANY_PRINCIPAL = "*"


class TransactionKeys(Config):
    """Transactions, and the topic that keeps their state."""

    transaction_state_log_num_partitions = Key(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "How many partitions `__transaction_state` gets when it is created; transactional ids are spread "
        "over them.",
        check=at_least(1),
        importance=HIGH,
    )
    transaction_state_log_replication_factor = Key(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "How many replicas `__transaction_state` gets when it is created; fewer if there are fewer brokers.",
        check=at_least(1),
        importance=HIGH,
    )
    transaction_state_log_min_isr = Key(
        "transaction.state.log.min.isr",
        INT,
        2,
        "The `min.insync.replicas` that `__transaction_state` gets when it is created; never more than it "
        "has replicas.",
        check=at_least(1),
        importance=HIGH,
    )
    transaction_state_log_segment_bytes = Key(
        "transaction.state.log.segment.bytes",
        INT,
        100 * MIB,
        "The segment size that `__transaction_state` gets when it is created. Small segments are compacted "
        "earlier, which makes loading faster.",
        check=at_least(1),
        importance=HIGH,
    )
    transactional_id_expiration_ms = Key(
        "transactional.id.expiration.ms",
        INT,
        7 * DAY_MS,
        "How long a transactional id is remembered after its last transaction. One with an open transaction "
        "never expires.",
        check=at_least(1),
        importance=HIGH,
    )
    transaction_max_timeout_ms = Key(
        "transaction.max.timeout.ms",
        INT,
        15 * MINUTE_MS,
        "The longest transaction timeout that a producer may ask for. Producers with two-phase commit may "
        "ask for more; until they prepare, their transactions get this much.",
        check=at_least(1),
        importance=HIGH,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = Key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10 * SECOND_MS,
        "How often the coordinator aborts transactions that have timed out.",
        check=at_least(1),
        importance=LOW,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = Key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        HOUR_MS,
        "How often the coordinator deletes expired transactional ids.",
        check=at_least(1),
        importance=LOW,
    )
    transaction_partition_verification_enable = Key(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Whether a partition asks the coordinator, before the first batch of a transaction is appended, "
        "if it belongs to that transaction. Without it a late batch can leave a transaction hanging.",
        update=Update.CLUSTER_WIDE,
        importance=LOW,
    )
    transaction_two_phase_commit_enable = Key(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        True,
        "Whether producers may take part in two-phase commits (KIP-939): their prepared transactions stay "
        "open, and hold back read-committed consumers, until they are committed or aborted. On by default, "
        "unlike in Kafka: the exactly-once sink for Spark needs it.",
        importance=LOW,
    )
    ottla_two_phase_commit_principals = Key(
        "ottla.two.phase.commit.principals",
        LIST,
        (ANY_PRINCIPAL,),
        "Principals that have the permission TWO_PHASE_COMMIT, where it is enabled like `User:spark`, or `*` "
        "for all.",
        update=Update.CLUSTER_WIDE,
        importance=LOW,
    )
