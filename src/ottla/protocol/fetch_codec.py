"""Fetch, versions 4 to 18: the requests' decoder and the responses' encoder under one name."""

from ottla.protocol.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    decode_fetch_request,
)
from ottla.protocol.fetch_response import FetchPartitionResult, FetchTopicResult, encode_fetch_response
from ottla.protocol.hot_path import Leader, NodeEndpoint

__all__ = [
    "FetchPartition",
    "FetchPartitionResult",
    "FetchRequest",
    "FetchTopic",
    "FetchTopicResult",
    "ForgottenTopic",
    "Leader",
    "NodeEndpoint",
    "decode_fetch_request",
    "encode_fetch_response",
]
