"""What can go wrong on the client's side of the wire.

Two families. `ClientError`: no answer came, or none that could be understood. `KafkaError` (of
`ottla.protocol.errors`): a broker answered with an error code; `error_for` turns the code into
its class, so that callers write `except TopicAlreadyExists`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from kio.schema.errors import ErrorCode

from ottla.protocol.errors import ERRORS, KafkaError

if TYPE_CHECKING:
    from ottla.client.address import Address


class ClientError(Exception):
    """The base of what goes wrong without a broker saying so."""


class BrokerUnreachable(ClientError):
    """No connection can be made."""

    def __init__(
        self, addresses: Sequence[Address], reason: str, *, advertised_by: str | None = None
    ) -> None:
        super().__init__(f"no broker at {', '.join(map(str, addresses))}: {reason}")
        self.addresses = tuple(addresses)
        self.reason = reason
        self.advertised_by = advertised_by
        """How a broker that gave us this address calls itself; None for addresses the user gave."""


class ConnectionLost(ClientError):
    """The connection broke before the answer came; what was asked may or may not have been done."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"lost the connection to {address}: {reason}")
        self.address = address
        self.reason = reason


class NotKafka(ClientError):
    """Whoever listens there does not speak the Kafka protocol."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address} does not answer like a Kafka broker: {reason}")
        self.address = address


class NoLeader(ClientError):
    """A partition has had no leader for as long as we were willing to wait."""


class AuthenticationFailed(ClientError):
    """The broker does not accept who we say we are; trying again would not help."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address} refused the login: {reason}")
        self.address = address
        self.reason = reason


class TlsFailed(ClientError):
    """No encrypted connection can be made; trying again would not help."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"no encrypted connection to {address}: {reason}")
        self.address = address
        self.reason = reason


class TimedOut(ClientError):
    """What was asked for did not happen in the time that was given for it."""


class ClientClosed(ClientError):
    """The client has been closed, so it takes nothing more."""


class WrongTransactionState(ClientError):
    """The call does not fit the state of the transaction; says what to call first."""


class TransactionFailed(ClientError):
    """The transaction cannot be committed any more; abort it, and do its work again in a new one."""


class TransactionAborted(ClientError):
    """The record was not sent, or will not be seen, because its transaction was aborted."""


def error_for(code: int, message: str | None = None) -> KafkaError:
    """Return the error that a broker's `code` stands for."""
    return _class_of(code)(message or "")


def meaning_of(code: int) -> str:
    """Return what a broker's `code` means, in a few words without a full stop."""
    sentence = (_class_of(code).__doc__ or "").strip().splitlines()[0].rstrip(".")
    return sentence[0].lower() + sentence[1:]


def raise_for(code: int, message: str | None = None) -> None:
    """Raise the error that `code` stands for; return if it stands for none."""
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
    made = type(name, (KafkaError,), {"__doc__": f"Answered by a broker: {known.name}."}, code=known)
    del ERRORS[known]  # that table lists what Ottla itself raises
    return cast("type[KafkaError]", made)
