"""The short way to end a transaction: one request on a connection that is there already.

A producer that waits for its commit has nothing else to do in that time, so every step counts. Nearly always
the coordinator is known, its connection open, and the answer a new epoch. Whenever anything is different the
end is asked for again by the general way (transaction_calls.py), which knows what to do: to ask twice changes
nothing, a coordinator knows the second request by its epoch.
"""

from __future__ import annotations

from ottla.client.connection import Connection
from ottla.client.errors import ClientError
from ottla.client.producer.batch import Identity
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.end_txn_client import VERSION, decode_ended, encode_end
from ottla.protocol.errors import KafkaError


async def end_at_once(
    connection: Connection, transactional_id: str, identity: Identity, *, commit: bool, timeout_ms: float
) -> Identity | None:
    """End a transaction; return who the producer is in the next one, or None if that is not clear."""
    try:
        if connection.version_of(ApiKey.END_TXN, VERSION) != VERSION:
            return None
        body = encode_end(transactional_id, *identity, commit=commit)
        frame, at = await connection.post(ApiKey.END_TXN, VERSION, (body,), timeout_ms)
    except (ClientError, KafkaError):
        return None
    ended = decode_ended(frame, at)
    return None if ended is None else Identity(*ended)
