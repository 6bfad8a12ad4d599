"""S3 and what speaks its protocol: a source that reads each object of a prefix once.

A source partition is an object, its offset the object's ETag: an object that is replaced is read again. An
object is asked for by its ETag, so a batch that is read again has the same records.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.connect.config.keys import HIGH, INT, LOW, PASSWORD, ConfigKey, at_least
from ottla.connect.connectors import file_formats
from ottla.connect.connectors.files import READ_FORMATS
from ottla.connect.connectors.object_store import RETRIABLE, check_bucket, client_of
from ottla.connect.data.record import Record
from ottla.connect.errors import ConnectError, RetriableError
from ottla.connect.sdk import Offsets, SourceConnector, SourceReader, partition_of

log = logging.getLogger(__name__)

GONE = ("NoSuchKey", "404", "PreconditionFailed", "412")


class S3Source(SourceConnector):
    """Reads text lines, JSON lines, CSV and Parquet from a bucket."""

    keys = (
        ConfigKey("s3.bucket.name", doc="The bucket.", importance=HIGH),
        ConfigKey("topic", doc="The topic to write to.", importance=HIGH),
        ConfigKey("s3.prefix", default="", doc="Prefix of the objects to read.", importance=HIGH),
        ConfigKey("s3.region", default="us-east-1", doc="The region.", importance=HIGH),
        ConfigKey("store.url", default="", doc="URL of an S3-compatible server; default: AWS."),
        ConfigKey("aws.access.key.id", default="", doc="Access key id; default: boto3's credentials."),
        ConfigKey("aws.secret.access.key", PASSWORD, "", "Secret key; default: boto3's credentials."),
        ConfigKey(
            "format", default="jsonl", doc="What is in the objects.", importance=HIGH, values=READ_FORMATS
        ),
        ConfigKey("key.field", default="", doc="The field to use as the record key."),
        ConfigKey("batch.max.objects", INT, 100, "Objects of one batch.", LOW, at_least(1)),
    )
    position_keys = ("s3.bucket.name", "s3.prefix", "store.url", "format", "topic")
    interval_ms = 5_000

    @classmethod
    def check(cls, config: Mapping[str, str]) -> dict[str, str]:
        """Check that the bucket is there."""
        return check_bucket(cls("check", config).settings)

    def reader(self, task: Mapping[str, str]) -> SourceReader:
        """Return the reader."""
        return S3Reader(dict(self.settings))

    def topics(self) -> list[str]:
        """Return the topic."""
        return [self.settings["topic"]]

    def check_offsets(self, offsets: Offsets) -> None:
        """Check that offsets are of objects."""
        for partition, offset in offsets.items():
            if "key" not in json.loads(partition) or not isinstance(offset.get("etag"), str):
                raise ConnectError('the offsets of this connector: {"bucket", "key"} {"etag": TEXT}')


class S3Reader(SourceReader):
    """Reads objects."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.bucket = settings["s3.bucket.name"]

    def latest(self, start: Offsets) -> Offsets:
        """Return the objects that are new, up to the limit of a batch."""
        end, left = dict(start), self.settings["batch.max.objects"]
        pages = client_of(self.settings).get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self.bucket, Prefix=self.settings["s3.prefix"]):
            for each in page.get("Contents", []):
                partition = partition_of(bucket=self.bucket, key=each["Key"])
                place = {"etag": each["ETag"].strip('"')}
                if each["Key"].endswith("/") or start.get(partition) == place:
                    continue
                end[partition] = place
                left -= 1
                if not left:
                    return end
        return end

    def plan(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """Return a part for each object."""
        return [
            (json.loads(partition)["key"], place["etag"])
            for partition, place in sorted(end.items())
            if start.get(partition) != place
        ]

    def read(self, part: Any) -> Iterator[Record]:
        """Yield the records of an object."""
        key, etag = part
        with tempfile.NamedTemporaryFile(prefix="ottla-s3-") as file:
            if not self._download(key, etag, file):
                return
            kind = self.settings["format"]
            end = file_formats.parquet_groups(file.name) if kind == "parquet" else file.tell()
            for value, schema in file_formats.READERS[kind](file.name, 0, end):
                record = Record(self.settings["topic"], value, schema)
                field = self.settings["key.field"]
                if field:
                    record.key = value.get(field) if isinstance(value, dict) else None
                    record.key_schema = None if schema is None else schema.field_map().get(field)
                yield record

    def _download(self, key: str, etag: str, file: Any) -> bool:
        """Copy an object into a file; False if it is not there any more: another version is another batch."""
        import botocore.exceptions

        try:
            body = client_of(self.settings).get_object(Bucket=self.bucket, Key=key, IfMatch=etag)["Body"]
            for chunk in body.iter_chunks(1 << 20):
                file.write(chunk)
        except botocore.exceptions.ClientError as error:
            code = error.response["Error"]["Code"]
            if code in GONE:
                log.error("%s: the object was deleted or replaced before it was read", key)
                return False
            raise (
                RetriableError(f"S3: {error}") if code in RETRIABLE else ConnectError(f"S3: {error}")
            ) from None
        except botocore.exceptions.BotoCoreError as error:
            raise RetriableError(f"S3: {error}") from None
        file.flush()
        return True
