"""Requests and responses, between bytes and kio's message classes.

Handlers work with one class per API, that of the newest version they serve; here is what lets
them. `request_decoder(api_key, version, as_version)` reads what a client sent in `version` into
the class of `as_version`, and `response_encoder` does the reverse with the answer. The client
uses the other two. Produce and Fetch, whose cost is felt, have codecs of their own.

kio's own reader is not used: a lying array length makes it abort the process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kio.index import KioIndexError, load_request_schema, load_response_schema

from ottla.protocol.api_keys import FIRST_OWN_KEY
from ottla.protocol.errors import UnsupportedVersion
from ottla.protocol.primitives import Buffer
from ottla.protocol.schema.decoding import compile_decoder
from ottla.protocol.schema.encoding import compile_encoder
from ottla.protocol.schema.fields import EntityType

MAX_REQUEST_ELEMENTS = 24_576
"""Array elements and tagged fields in one request, so that none blocks the loop for long; strings
count twice, structs twice or more."""

MAX_RESPONSE_ELEMENTS = 4_000_000
"""The same for responses, which the client reads: the metadata of a large cluster fits."""

Decoder = Callable[[Buffer, int], Any]
Encoder = Callable[[Any], bytes]


def request_class(api_key: int, version: int) -> EntityType:
    """Return the class of a request, kio's or ours; UnsupportedVersion if there is none."""
    if api_key >= FIRST_OWN_KEY:
        return _own_class("OWN_REQUESTS", api_key, version)
    try:
        return load_request_schema(api_key, version)
    except KioIndexError:
        raise UnsupportedVersion(f"there is no API {api_key} in version {version}") from None


def response_class(api_key: int, version: int) -> EntityType:
    """Return the class of a response, kio's or ours; UnsupportedVersion if there is none."""
    if api_key >= FIRST_OWN_KEY:
        return _own_class("OWN_RESPONSES", api_key, version)
    try:
        return load_response_schema(api_key, version)
    except KioIndexError:
        raise UnsupportedVersion(f"there is no API {api_key} in version {version}") from None


def _own_class(table: str, api_key: int, version: int) -> EntityType:
    """Return the class of a message of ours; a client seldom needs one, and they take time to import."""
    from ottla.protocol import own_messages

    found: dict[tuple[int, int], EntityType] = getattr(own_messages, table)
    if (api_key, version) not in found:
        raise UnsupportedVersion(f"there is no API {api_key} in version {version}")
    return found[api_key, version]


@cache
def request_decoder(api_key: int, version: int, as_version: int) -> Decoder:
    """Return a function of a frame and the body's position that gives the request in `as_version`."""
    wire, target = request_class(api_key, version), request_class(api_key, as_version)
    return compile_decoder(wire, target, MAX_REQUEST_ELEMENTS)


@cache
def response_encoder(api_key: int, version: int, as_version: int) -> Encoder:
    """Return a function that writes a response of `as_version` as the body of one of `version`."""
    return compile_encoder(response_class(api_key, version), response_class(api_key, as_version))


@cache
def request_encoder(api_key: int, version: int, as_version: int) -> Encoder:
    """Return a function that writes a request of `as_version` as the body of one of `version`."""
    return compile_encoder(request_class(api_key, version), request_class(api_key, as_version))


@cache
def response_decoder(api_key: int, version: int, as_version: int) -> Decoder:
    """Return a function of a frame and the body's position that gives the response in `as_version`."""
    wire, target = response_class(api_key, version), response_class(api_key, as_version)
    return compile_decoder(wire, target, MAX_RESPONSE_ELEMENTS)
