"""A sink for OpenSearch and Elasticsearch, through their bulk API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.connect.config.keys import BOOLEAN, HIGH, INT, PASSWORD, ConfigKey, at_least
from ottla.connect.converters.plain import as_text
from ottla.connect.data.json_form import to_json
from ottla.connect.data.record import Record
from ottla.connect.errors import ConnectError, RetriableError
from ottla.connect.sdk import Batch, Refused, SinkConnector, SinkWriter

RETRY_STATUSES = (429, 502, 503, 504)


class SearchSink(SinkConnector):
    """Indexes records. The document id is the record's key, or topic, partition and offset.

    Documents have the record's offset as external version: a batch that comes again changes nothing.
    """

    keys = (
        ConfigKey("connection.url", doc="http://HOST:9200", importance=HIGH),
        ConfigKey("connection.username", default="", doc="The user.", importance=HIGH),
        ConfigKey("connection.password", PASSWORD, "", "The password.", HIGH),
        ConfigKey("index.format", default="${topic}", doc="The index for a topic.", importance=HIGH),
        ConfigKey(
            "key.ignore",
            BOOLEAN,
            False,
            "Use topic, partition and offset as document id instead of the key.",
            HIGH,
        ),
        ConfigKey("batch.size", INT, 2000, "Documents per request.", check=at_least(1)),
        ConfigKey("request.timeout.ms", INT, 30_000, "Timeout of a request.", check=at_least(1)),
    )
    guarantee = "exactly once"

    def writer(self, task: Mapping[str, str]) -> SinkWriter:
        """Return the writer."""
        return SearchWriter(dict(self.settings))


class SearchWriter(SinkWriter):
    """Sends bulk requests."""

    by_partition = True

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def write(self, records: Iterator[Record], batch: Batch, refused: list[Refused]) -> Any:
        """Index records; those that are refused are returned."""
        import httpx

        user = self.settings["connection.username"]
        auth = (user, self.settings["connection.password"]) if user else None
        timeout_s = self.settings["request.timeout.ms"] / 1000
        count, group = 0, []
        with httpx.Client(auth=auth, timeout=timeout_s) as client:
            for record in records:
                group.append(record)
                count += 1
                if len(group) >= self.settings["batch.size"]:
                    self._send(client, group, refused)
                    group = []
            if group:
                self._send(client, group, refused)
        return count

    def _send(self, client: Any, group: list[Record], refused: list[Refused]) -> None:
        import httpx

        lines = [line for record in group for line in self._lines(record)]
        try:
            answer = client.post(
                f"{self.settings['connection.url'].rstrip('/')}/_bulk",
                content="\n".join([*lines, ""]).encode(),
                headers={"content-type": "application/x-ndjson"},
            )
        except httpx.TransportError as error:
            raise RetriableError(f"search: {type(error).__name__}: {error}") from None
        if answer.status_code in RETRY_STATUSES:
            raise RetriableError(f"search: HTTP {answer.status_code}")
        if answer.status_code >= 300:
            raise ConnectError(f"search: HTTP {answer.status_code}: {answer.text[:200]}")
        for record, item in zip(group, answer.json()["items"], strict=True):
            (result,) = item.values()
            status = result["status"]
            if status in RETRY_STATUSES:
                raise RetriableError(f"search: a document was not taken: HTTP {status}")
            if status >= 300 and status not in (404, 409):  # gone already, or newer already
                refused.append(Refused(record, f"search: {json.dumps(result.get('error'))}"))

    def _lines(self, record: Record) -> list[str]:
        has_key = record.key is not None and not self.settings["key.ignore"]
        identity = as_text(record.key) if has_key else f"{record.origin}+{record.partition}+{record.offset}"
        index = self.settings["index.format"].replace("${topic}", record.topic).lower()
        place = {"_index": index, "_id": identity, "version": record.offset, "version_type": "external_gte"}
        if record.value is None:
            return [json.dumps({"delete": place})]
        value = to_json(record.value_schema, record.value, decimals="NUMERIC")
        document = value if isinstance(value, dict) else {"value": value}
        return [json.dumps({"index": place}), json.dumps(document)]
