"""What one broker says about its cluster, asked over a plain blocking socket.

Tests look at a cluster while brokers of it are dead, paused or cut off: every question is a connection of its
own with a short timeout, and says whom it asked.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.metadata.v9.response import MetadataResponse

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import (
    RequestHeader,
    decode_response_header,
    encode_frame,
    encode_request_header,
)
from ottla.protocol.schema.messages import request_encoder, response_decoder

VERSION = 9
TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition, as a broker sees it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it has a leader and every replica is in sync."""
        return self.leader >= 0 and set(self.in_sync) == set(self.replicas)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster, as one of its brokers sees it."""

    controller: int
    brokers: Mapping[int, str]
    """The address of each."""
    partitions: Mapping[tuple[str, int], PartitionView]

    @property
    def is_whole(self) -> bool:
        """Whether every partition has a leader and all its replicas in sync."""
        return all(each.is_whole for each in self.partitions.values())


def view_of(address: str, timeout_s: float = TIMEOUT_S) -> ClusterView:
    """Return what the broker at `address` knows; OSError if it does not answer in time."""
    request = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    header = RequestHeader(ApiKey.METADATA, VERSION, 1, "cluster-view")
    body = request_encoder(ApiKey.METADATA, VERSION, VERSION)(request)
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout_s) as connection:
        connection.sendall(encode_frame(encode_request_header(header), body))
        answer = _receive(connection, int.from_bytes(_receive(connection, 4), "big"))
    _, position = decode_response_header(answer, ApiKey.METADATA, VERSION)
    response = response_decoder(ApiKey.METADATA, VERSION, VERSION)(answer, position)
    assert isinstance(response, MetadataResponse)
    return _view(response)


def _view(response: MetadataResponse) -> ClusterView:
    return ClusterView(
        controller=response.controller_id,
        brokers={each.node_id: f"{each.host}:{each.port}" for each in response.brokers},
        partitions={
            (str(topic.name), each.partition_index): PartitionView(
                each.leader_id, each.leader_epoch, tuple(each.replica_nodes), tuple(each.isr_nodes)
            )
            for topic in response.topics
            for each in topic.partitions
        },
    )


def _receive(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        if not (chunk := connection.recv(count - len(parts))):
            raise ConnectionError("the broker closed the connection in the middle of its answer")
        parts += chunk
    return bytes(parts)
