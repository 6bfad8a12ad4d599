"""Fetch and Produce over a connection, with the hand-written codecs.

`fetch` and `produce` are for callers that await one response. The consumer and the producer, which send the
next request while a response is being received, use `Connection.send_callback` with `decode_fetch` and
`decode_produce`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.protocol import fetch_client, produce_client
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.fetch_client import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchPartitionRequest,
    FetchReply,
    FetchSettings,
    Topic,
    decode_fetch_response,
    encode_fetch_request,
)
from ottla.protocol.fetch_codec import TOPIC_IDS_FROM
from ottla.protocol.hot_path import NodeEndpoint
from ottla.protocol.primitives import Buffer
from ottla.protocol.produce_client import Results, decode_produce_response, encode_produce_request
from ottla.wire.connection import Connection, Response

PRODUCE_GRACE_MS = 2_000
"""How much longer than the broker's own timeout to wait for its response."""


def fetch_version(connection: Connection, topics: Iterable[Topic]) -> int:
    """Return the newest version to fetch in: without topic ids if one of the topics has none."""
    version = connection.version_of(ApiKey.FETCH, fetch_client.LAST_VERSION)
    if any(topic.topic_id is None for topic in topics):
        return min(version, TOPIC_IDS_FROM - 1)
    return version


async def fetch(
    connection: Connection,
    settings: FetchSettings,
    topics: Mapping[Topic, Mapping[int, FetchPartitionRequest]],
    *,
    timeout_ms: float,
) -> FetchReply:
    """Fetch once, without a fetch session."""
    version = fetch_version(connection, topics)
    body = encode_fetch_request(version, settings, (NO_SESSION, FINAL_EPOCH), topics, {})
    await connection.ready()
    response = await connection.send(ApiKey.FETCH, version, (body,), timeout_ms)
    return decode_fetch(connection, response, version)


def decode_fetch(connection: Connection, response: Response, version: int) -> FetchReply:
    """Return a Fetch response; one that cannot be decoded closes the connection."""
    try:
        return decode_fetch_response(*response, version)
    except KafkaError as error:
        raise connection.garbled(ApiKey.FETCH, version, error) from error


async def produce(
    connection: Connection,
    topics: Mapping[str, Sequence[tuple[int, Buffer]]],
    *,
    acks: int,
    timeout_ms: int,
) -> tuple[Results, list[NodeEndpoint]]:
    """Produce encoded batches once, without a transaction; `acks` is not 0."""
    version = connection.version_of(ApiKey.PRODUCE, produce_client.LAST_VERSION)
    body = encode_produce_request(version, None, acks, timeout_ms, topics)
    await connection.ready()
    response = await connection.send(ApiKey.PRODUCE, version, body, timeout_ms + PRODUCE_GRACE_MS)
    return decode_produce(connection, response, version)


def decode_produce(
    connection: Connection, response: Response, version: int
) -> tuple[Results, list[NodeEndpoint]]:
    """Return a Produce response; one that cannot be decoded closes the connection."""
    try:
        return decode_produce_response(*response, version)
    except KafkaError as error:
        raise connection.garbled(ApiKey.PRODUCE, version, error) from error
