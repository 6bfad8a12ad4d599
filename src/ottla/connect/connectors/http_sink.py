"""A sink that sends records to an HTTP server: one by one, or as a JSON array."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ottla.connect.config.keys import HIGH, INT, LIST, PASSWORD, ConfigKey, at_least
from ottla.connect.data.json_form import to_json
from ottla.connect.data.record import Record
from ottla.connect.errors import RetriableError
from ottla.connect.sdk import Batch, Refused, SinkConnector, SinkWriter

RETRY_STATUSES = (408, 425, 429, 500, 502, 503, 504)


class HttpSink(SinkConnector):
    """Sends records with POST, PUT or PATCH; `${topic}` and `${key}` in the URL are replaced.

    Each request has a header `Idempotency-Key` of topic, partition and offset: a server that looks at it
    takes each record once.
    """

    keys = (
        ConfigKey("http.api.url", doc="The URL to send records to.", importance=HIGH),
        ConfigKey("request.method", default="POST", doc="The HTTP method.", values=("POST", "PUT", "PATCH")),
        ConfigKey(
            "batch.max.size",
            INT,
            1,
            "Records per request; more than 1 are sent as a JSON array.",
            check=at_least(1),
        ),
        ConfigKey("headers", LIST, [], "HTTP headers NAME:VALUE, comma-separated."),
        ConfigKey("connection.user", default="", doc="User for basic authentication."),
        ConfigKey("connection.password", PASSWORD, "", "Password for basic authentication."),
        ConfigKey("request.timeout.ms", INT, 30_000, "Timeout of a request.", check=at_least(1)),
    )

    def writer(self, task: Mapping[str, str]) -> SinkWriter:
        """Return the writer."""
        return HttpWriter(dict(self.settings))


class HttpWriter(SinkWriter):
    """Sends the records of a partition in their order."""

    by_partition = True

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def write(self, records: Iterator[Record], batch: Batch, refused: list[Refused]) -> Any:
        """Send records; those that the server refuses are returned."""
        import httpx

        chosen = self.settings
        user = chosen["connection.user"]
        headers = dict(each.split(":", 1) for each in chosen["headers"])
        auth = (user, chosen["connection.password"]) if user else None
        count = 0
        with httpx.Client(timeout=chosen["request.timeout.ms"] / 1000, auth=auth, headers=headers) as client:
            for group in _groups(records, chosen["batch.max.size"]):
                self._send(client, group, refused)
                count += len(group)
        return count

    def _send(self, client: Any, group: list[Record], refused: list[Refused]) -> None:
        import httpx

        bodies = [to_json(each.value_schema, each.value, decimals="NUMERIC") for each in group]
        first, last = group[0], group[-1]
        url = (
            self.settings["http.api.url"]
            .replace("${topic}", first.topic)
            .replace("${key}", quote("" if first.key is None else str(first.key), safe=""))
        )
        identity = f"{first.origin}-{first.partition}-{first.offset}" + (
            f"-{last.offset}" if len(group) > 1 else ""
        )
        try:
            answer = client.request(
                self.settings["request.method"],
                url,
                content=json.dumps(bodies if self.settings["batch.max.size"] > 1 else bodies[0]),
                headers={"content-type": "application/json", "idempotency-key": identity},
            )
        except httpx.TransportError as error:
            raise RetriableError(f"{url}: {type(error).__name__}: {error}") from None
        if answer.status_code in RETRY_STATUSES:
            raise RetriableError(f"{url} answers {answer.status_code}")
        if answer.status_code >= 300:
            reason = f"{url} answers {answer.status_code}: {answer.text[:200]}"
            if len(group) > 1:
                for each in group:
                    self._send(client, [each], refused)
                return
            refused.append(Refused(group[0], reason))


def _groups(records: Iterator[Record], most: int) -> Iterator[list[Record]]:
    group: list[Record] = []
    for each in records:
        group.append(each)
        if len(group) >= most:
            yield group
            group = []
    if group:
        yield group
