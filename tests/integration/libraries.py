"""The client libraries that the table runs through, by name."""

from __future__ import annotations

from tests.integration.aiokafka_client import AiokafkaClient
from tests.integration.clients import Client
from tests.integration.confluent_client import ConfluentClient
from tests.integration.kafka_python_client import KafkaPythonClient
from tests.integration.ottla_client import OttlaAsyncClient, OttlaClient

LIBRARIES: dict[str, type[Client]] = {
    library.name: library
    for library in (ConfluentClient, KafkaPythonClient, AiokafkaClient, OttlaClient, OttlaAsyncClient)
}
