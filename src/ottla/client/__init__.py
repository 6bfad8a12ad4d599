"""Clients for any broker of the Kafka protocol: producer, consumer and admin, each for asyncio and without.

    from ottla.client import Producer

    with Producer("localhost:9092") as producer:
        producer.send("orders", b"42", key=b"customer-7")

The asyncio classes are the core; the synchronous ones run them in a background thread and may be shared
between threads. Connections, TLS and SASL are in `ottla.wire`. Reading order:

    client_options                the options that all clients share (declared with common/config/options)
    errors, metadata              errors beside KafkaError; brokers, topics and leaders as last seen
    cluster                       metadata, connections and retries: the base of all clients
    coordinators                  which broker coordinates a group or a transactional id
    group_membership              membership in groups of services: Connect's workers, registries
    event_loop_thread             runs the asyncio clients for the synchronous ones
    producer/                     collects records in batches, which a background sender sends
    consumer/                     reads partitions, alone or in a group; fetches ahead in the background
    admin/                        describes and changes a cluster
    offsets                       ListOffsets
    record_serdes                 serializers that see topic and headers
    record_columns, arrow_batches, arrow_to_batches   batches of records as Arrow columns, and back
    signatures                    constructors that accept options
    api_docs, options_docs        the generated pages in docs/

Nothing here imports the broker's layers: only `ottla.wire`, `ottla.protocol` and `ottla.common`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.common.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ottla.client.admin import Admin as Admin
    from ottla.client.admin import AdminOptions as AdminOptions
    from ottla.client.admin import AsyncAdmin as AsyncAdmin
    from ottla.client.admin import NewTopic as NewTopic
    from ottla.client.admin.group_types import ConsumerGroupMetadata as ConsumerGroupMetadata
    from ottla.client.admin.group_types import OffsetAndMetadata as OffsetAndMetadata
    from ottla.client.consumer import AsyncConsumer as AsyncConsumer
    from ottla.client.consumer import CommitFailed as CommitFailed
    from ottla.client.consumer import Consumer as Consumer
    from ottla.client.consumer import ConsumerOptions as ConsumerOptions
    from ottla.client.consumer import ConsumerRecord as ConsumerRecord
    from ottla.client.consumer import DeserializationFailed as DeserializationFailed
    from ottla.client.consumer import LogTruncated as LogTruncated
    from ottla.client.consumer import NoOffset as NoOffset
    from ottla.client.consumer import RebalanceListener as RebalanceListener
    from ottla.client.errors import AuthenticationFailed as AuthenticationFailed
    from ottla.client.errors import BrokerUnreachable as BrokerUnreachable
    from ottla.client.errors import ClientClosed as ClientClosed
    from ottla.client.errors import ClientError as ClientError
    from ottla.client.errors import ConnectionLost as ConnectionLost
    from ottla.client.errors import NotKafka as NotKafka
    from ottla.client.errors import TimedOut as TimedOut
    from ottla.client.errors import TlsFailed as TlsFailed
    from ottla.client.errors import TransactionAborted as TransactionAborted
    from ottla.client.errors import TransactionFailed as TransactionFailed
    from ottla.client.errors import WrongTransactionState as WrongTransactionState
    from ottla.client.producer import AsyncProducer as AsyncProducer
    from ottla.client.producer import Delivery as Delivery
    from ottla.client.producer import PreparedTransaction as PreparedTransaction
    from ottla.client.producer import Producer as Producer
    from ottla.client.producer import ProducerInterceptor as ProducerInterceptor
    from ottla.client.producer import ProducerOptions as ProducerOptions
    from ottla.client.producer import ProducerRecord as ProducerRecord
    from ottla.client.producer import RecordMetadata as RecordMetadata
    from ottla.common.config.declaration import ConfigError as ConfigError
    from ottla.common.ids import TopicPartition as TopicPartition
    from ottla.protocol.errors import KafkaError as KafkaError
    from ottla.wire.address import Address as Address

_HOMES = {
    "Address": "ottla.wire.address",
    "Admin": "ottla.client.admin",
    "AdminOptions": "ottla.client.admin",
    "AsyncAdmin": "ottla.client.admin",
    "AsyncConsumer": "ottla.client.consumer",
    "AsyncProducer": "ottla.client.producer",
    "AuthenticationFailed": "ottla.client.errors",
    "BrokerUnreachable": "ottla.client.errors",
    "ClientClosed": "ottla.client.errors",
    "ClientError": "ottla.client.errors",
    "CommitFailed": "ottla.client.consumer",
    "ConfigError": "ottla.common.config.declaration",
    "ConnectionLost": "ottla.client.errors",
    "Consumer": "ottla.client.consumer",
    "ConsumerGroupMetadata": "ottla.client.admin.group_types",
    "ConsumerOptions": "ottla.client.consumer",
    "ConsumerRecord": "ottla.client.consumer",
    "Delivery": "ottla.client.producer",
    "DeserializationFailed": "ottla.client.consumer",
    "KafkaError": "ottla.protocol.errors",
    "LogTruncated": "ottla.client.consumer",
    "NewTopic": "ottla.client.admin",
    "NoOffset": "ottla.client.consumer",
    "NotKafka": "ottla.client.errors",
    "OffsetAndMetadata": "ottla.client.admin.group_types",
    "PreparedTransaction": "ottla.client.producer",
    "Producer": "ottla.client.producer",
    "ProducerInterceptor": "ottla.client.producer",
    "ProducerOptions": "ottla.client.producer",
    "ProducerRecord": "ottla.client.producer",
    "RebalanceListener": "ottla.client.consumer",
    "RecordMetadata": "ottla.client.producer",
    "TimedOut": "ottla.client.errors",
    "TlsFailed": "ottla.client.errors",
    "TopicPartition": "ottla.common.ids",
    "TransactionAborted": "ottla.client.errors",
    "TransactionFailed": "ottla.client.errors",
    "WrongTransactionState": "ottla.client.errors",
}
"""Where each public name lives; it is imported when it is first used: the command line must start fast."""

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
