"""The principal of a forwarded request: Kafka's DefaultPrincipalData, between bytes and values.

int16 version (0), compact string type, compact string name, boolean token authenticated, tagged fields
"""

from __future__ import annotations

from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

from ottla.protocol.errors import PrincipalDeserializationFailure
from ottla.protocol.schema.decoding import compile_decoder
from ottla.protocol.schema.encoding import compile_encoder

_VERSION = b"\x00\x00"
_MAX_ELEMENTS = 100
_encode = compile_encoder(DefaultPrincipalData, DefaultPrincipalData)
_decode = compile_decoder(DefaultPrincipalData, DefaultPrincipalData, _MAX_ELEMENTS)


def encode_principal(principal: str, *, is_token_authenticated: bool) -> bytes:
    """Return the bytes of `User:alice`."""
    kind, _, name = principal.partition(":")
    return _VERSION + _encode(
        DefaultPrincipalData(type_=kind, name=name, token_authenticated=is_token_authenticated)
    )


def decode_principal(data: bytes | None) -> tuple[str, bool]:
    """Return the principal, and whether it authenticated with a delegation token."""
    if data is None or data[:2] != _VERSION:
        raise PrincipalDeserializationFailure("the forwarded request does not name its principal")
    try:
        found: DefaultPrincipalData = _decode(memoryview(data), len(_VERSION))
    except Exception as error:
        raise PrincipalDeserializationFailure(
            "the principal of the forwarded request is malformed"
        ) from error
    return f"{found.type_}:{found.name}", found.token_authenticated
