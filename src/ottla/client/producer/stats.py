"""What a producer counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SenderStats:
    """What has been sent so far."""

    requests: int = 0
    batches: int = 0
    records: int = 0
    """That are stored (with acks=0: sent)."""
    failed_records: int = 0
    bytes: int = 0
    retries: int = 0
    last_error: Exception | None = None
    """Why something was tried again, the last time that it was."""
