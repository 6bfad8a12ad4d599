"""How many records a flow has still to read: where the topics end, against where the flow is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client import Admin, ClientError, KafkaError, TopicPartition
from ottla.client.offsets import LATEST

PATIENCE_MS = 5_000
"""What is shown is not worth waiting for longer."""


class LagMeter:
    """Asks the cluster where topics end; connected when it is first asked, and again after a failure."""

    def __init__(self, bootstrap: str, client: Mapping[str, str] | None = None) -> None:
        self._bootstrap = bootstrap
        self._client: dict[str, Any] = dict(client or {})
        if not {"default_api_timeout_ms", "default.api.timeout.ms"} & self._client.keys():
            self._client["default_api_timeout_ms"] = PATIENCE_MS
        self._admin: Admin | None = None

    def __call__(self, offsets: dict[tuple[str, int], int]) -> int | None:
        """Return the lag in records, None if the cluster does not say."""
        try:
            if self._admin is None:
                self._admin = Admin(self._bootstrap, **self._client)
            wanted = {TopicPartition(*partition): LATEST for partition in offsets}
            ends = self._admin.list_offsets(wanted, read_committed=True)
        except (ClientError, KafkaError, OSError, ValueError):
            self.close()
            return None
        return sum(max(0, ends[TopicPartition(*each)].offset - offset) for each, offset in offsets.items())

    def close(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None
