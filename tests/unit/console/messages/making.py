"""Messages to test expressions, decoding and masks with."""

from __future__ import annotations

import json
from typing import Any

from ottla.client.consumer import ConsumerRecord
from ottla.console.messages.masking import Mask, Masking
from ottla.console.messages.message import Message, Reading

TOPIC = "orders"


def made(value: Any = None, key: bytes | None = b"k", *masks: str, **more: Any) -> Message:
    """Return a message; a value that is not bytes is written as JSON."""
    raw = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    fields: dict[str, Any] = {
        "partition": 0,
        "offset": 7,
        "timestamp": 1_700_000_000_000,
        "headers": (),
        **more,
    }
    record = ConsumerRecord(
        TOPIC,
        fields["partition"],
        fields["offset"],
        fields["timestamp"],
        0,
        key,
        raw,
        fields["headers"],
    )
    rules = Masking.of(tuple(map(Mask.parse, masks)), TOPIC)
    return Message(record, Reading(TOPIC, masking=rules))
