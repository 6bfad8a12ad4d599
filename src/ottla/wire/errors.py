"""Errors of the client side of the wire, and their wording.

Two families. `ClientError`: no response came, or none that could be decoded. `KafkaError` (of
`ottla.protocol.errors`): a broker responded with an error code; `error_for` returns the class of a code, so
that callers write `except TopicAlreadyExists`.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Sequence
from functools import cache
from typing import cast

from kio.schema.errors import ErrorCode

from ottla.common.listeners import Address
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ERRORS, KafkaError


class ClientError(Exception):
    """Base of the failures that are not a broker's error code."""


class BrokerUnreachable(ClientError):
    """No connection to a broker can be opened."""

    def __init__(
        self,
        addresses: Sequence[Address],
        reason: str,
        *,
        advertised_by: str | None = None,
        node_id: int | None = None,
    ) -> None:
        super().__init__(f"no broker at {', '.join(map(str, addresses))}: {reason}")
        self.addresses = tuple(addresses)
        self.reason = reason
        self.advertised_by = advertised_by
        """The broker that advertises this address; None for addresses that the user gave."""
        self.node_id = node_id
        """The broker, if it is one of several that are known: others may answer."""


class ConnectionLost(ClientError):
    """The connection broke before the response came; the broker may or may not have executed the request."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"lost the connection to {address}: {reason}")
        self.address = address
        self.reason = reason


class ResponseTimeout(ConnectionLost):
    """A response did not come within the request's timeout, so the connection was closed."""


class NotKafka(ClientError):
    """The server at this address does not speak the Kafka protocol."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address} does not answer like a Kafka broker: {reason}")
        self.address = address
        self.reason = reason


class AuthenticationFailed(ClientError):
    """The broker rejected the credentials; a retry would not help."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address} refused the login: {reason}")
        self.address = address
        self.reason = reason


class TlsFailed(ClientError):
    """The TLS handshake failed; a retry would not help."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"no encrypted connection to {address}: {reason}")
        self.address = address
        self.reason = reason


class TimedOut(ClientError):
    """The call did not complete within its timeout."""


class ClientClosed(ClientError):
    """The client has been closed and accepts no more calls."""


def error_for(code: int, message: str | None = None) -> KafkaError:
    """Return the error of a broker's error code."""
    return _class_of(code)(message or "")


def meaning_of(code: int) -> str:
    """Return what an error code means, in a few words without a full stop."""
    sentence = (_class_of(code).__doc__ or "").strip().splitlines()[0].rstrip(".")
    return sentence[0].lower() + sentence[1:]


def raise_for(code: int, message: str | None = None) -> None:
    """Raise the error of a broker's error code; return if the code is 0 (none)."""
    if code != ErrorCode.none:
        raise error_for(code, message)


@cache
def _class_of(code: int) -> type[KafkaError]:
    """Return the declared class of a code, or make one: brokers know more errors than Ottla raises."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return KafkaError
    if known in ERRORS:
        return ERRORS[known]
    name = "".join(part.capitalize() for part in known.name.split("_"))
    made = type(name, (KafkaError,), {"__doc__": f"Error code of a broker: {known.name}."}, code=known)
    del ERRORS[known]  # that table lists the errors that Ottla itself raises
    return cast("type[KafkaError]", made)


def api_name(api_key: int) -> str:
    """Return an API's name as Kafka writes it."""
    try:
        return ApiKey(api_key).name.title().replace("_", "")
    except ValueError:
        return f"API {api_key}"


def reason_of(error: Exception) -> str:
    """Return the operating system's description of an error (asyncio replaces it by its own)."""
    if isinstance(error, socket.gaierror):
        return "the host name is not known"
    if isinstance(error, OSError) and (error.errno is not None or "Errno 111" in str(error)):
        text = os.strerror(error.errno or errno.ECONNREFUSED)
        return text[0].lower() + text[1:]
    if isinstance(error, ConnectionResetError):
        return "the connection was reset"
    return str(error) or type(error).__name__


def tls_reason(error: OSError) -> str | None:
    """Return why a TLS handshake failed; None if the error is not TLS's."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message} (see ssl_cafile, ssl_check_hostname)"
    if not isinstance(error, ssl.SSLError):
        return None
    said = (error.reason or str(error)).replace("_", " ").lower()
    if "wrong version number" in said or "record layer failure" in said:
        return "the server there does not speak TLS: is it a PLAINTEXT listener?"
    if "alert" in said:
        return f"the broker aborted it ({said}): does it require a client certificate (ssl_certfile)?"
    return said
