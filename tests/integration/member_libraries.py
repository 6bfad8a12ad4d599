"""The rows of the table of group members."""

from __future__ import annotations

from tests.integration import aiokafka_member, kafka_python_member, ottla_member
from tests.integration.confluent_member import ConfluentConsumerProtocolMember, ConfluentMember
from tests.integration.members import Library

CLASSIC = (
    Library("confluent-kafka", ConfluentMember, ("range", "roundrobin", "cooperative-sticky")),
    Library("kafka-python", kafka_python_member.KafkaPythonMember, tuple(kafka_python_member.ASSIGNORS)),
    Library("aiokafka", aiokafka_member.AiokafkaMember, tuple(aiokafka_member.ASSIGNORS)),
    Library("ottla", ottla_member.OttlaMember, ottla_member.ASSIGNORS),
)
CONSUMER = Library(
    "confluent-kafka-consumer-protocol", ConfluentConsumerProtocolMember, ("uniform", "range"), "consumer"
)
OTTLA_CONSUMER = Library(
    "ottla-async-consumer-protocol",
    ottla_member.OttlaConsumerProtocolMember,
    ottla_member.REMOTE_ASSIGNORS,
    "consumer",
)
LIBRARIES = {library.name: library for library in (*CLASSIC, CONSUMER, OTTLA_CONSUMER)}
