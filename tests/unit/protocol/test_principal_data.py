"""The principal in an Envelope is Kafka's DefaultPrincipalData."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import PrincipalDeserializationFailure
from ottla.protocol.principal_data import decode_principal, encode_principal


@pytest.mark.parametrize("principal", ["User:alice", "User:CN=ä:b,O=c", "User:", "Group:x"])
@pytest.mark.parametrize("is_token", [False, True])
def test_a_principal_is_read_back_as_it_was_written(principal: str, is_token: bool) -> None:
    data = encode_principal(principal, is_token_authenticated=is_token)
    assert decode_principal(data) == (principal, is_token)


def test_the_bytes_are_kafkas() -> None:
    # version 0, compact strings (length + 1), a boolean, no tagged fields
    assert encode_principal("User:bob", is_token_authenticated=True) == b"\0\0\x05User\x04bob\x01\0"


@pytest.mark.parametrize("data", [None, b"", b"\0\x01\x05User\x04bob\x01\0", b"\0\0\x05Us"])
def test_what_names_no_principal_is_refused(data: bytes | None) -> None:
    with pytest.raises(PrincipalDeserializationFailure):
        decode_principal(data)
