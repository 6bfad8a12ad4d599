"""The errors that the clients raise beside `KafkaError`; wire/errors.py has those of connections."""

from __future__ import annotations

from ottla.wire.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    ConnectionLost,
    NotKafka,
    TimedOut,
    TlsFailed,
    error_for,
    meaning_of,
    raise_for,
)

__all__ = [
    "AuthenticationFailed",
    "BrokerUnreachable",
    "ClientClosed",
    "ClientError",
    "ConnectionLost",
    "NoLeader",
    "NotKafka",
    "TimedOut",
    "TlsFailed",
    "TransactionAborted",
    "TransactionFailed",
    "WrongTransactionState",
    "error_for",
    "meaning_of",
    "raise_for",
]


class NoLeader(ClientError):
    """A partition had no leader until the timeout."""


class WrongTransactionState(ClientError):
    """The call is not allowed in the transaction's state; the message names the call to make first."""


class TransactionFailed(ClientError):
    """The transaction can no longer be committed: abort it, and repeat its work in a new one."""


class TransactionAborted(ClientError):
    """The record was not sent, or stays invisible, because its transaction was aborted."""
