"""S3 and what speaks its protocol: a sink whose objects have the names of the file sink's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config.keys import HIGH, PASSWORD, ConfigKey
from ottla.connect.connectors.files import WRITTEN_FILE_KEYS, FileWriter
from ottla.connect.errors import ConnectError, RetriableError
from ottla.connect.sdk import SinkConnector, SinkWriter

RETRIABLE = ("SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "500", "503")


class S3Sink(SinkConnector):
    """Writes JSON lines, CSV, Parquet or text to a bucket.

    An object is named by topic, partition and first offset: a batch that comes again replaces its objects.
    """

    keys = (
        ConfigKey("s3.bucket.name", doc="The bucket.", importance=HIGH),
        ConfigKey("s3.region", default="us-east-1", doc="The region.", importance=HIGH),
        ConfigKey("store.url", default="", doc="URL of an S3-compatible server; default: AWS."),
        ConfigKey("aws.access.key.id", default="", doc="Access key id; default: boto3's credentials."),
        ConfigKey("aws.secret.access.key", PASSWORD, "", "Secret key; default: boto3's credentials."),
        ConfigKey("topics.dir", default="topics", doc="Prefix of all object names."),
        *WRITTEN_FILE_KEYS,
    )
    guarantee = "exactly once"
    interval_ms = 10_000

    @classmethod
    def check(cls, config: Mapping[str, str]) -> dict[str, str]:
        """Check that the bucket is there."""
        return check_bucket(cls("check", config).settings)

    def writer(self, task: Mapping[str, str]) -> SinkWriter:
        """Return the writer."""
        return S3Writer(dict(self.settings))


def check_bucket(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the bucket."""
    try:
        client_of(settings).head_bucket(Bucket=settings["s3.bucket.name"])
    except Exception as error:
        return {"s3.bucket.name": f"the bucket cannot be used: {error}"}
    return {}


def client_of(settings: Mapping[str, Any]) -> Any:
    """Return boto3's client."""
    import boto3

    return boto3.client(
        "s3",
        region_name=settings["s3.region"],
        endpoint_url=settings["store.url"] or None,
        aws_access_key_id=settings["aws.access.key.id"] or None,
        aws_secret_access_key=settings["aws.secret.access.key"] or None,
    )


class S3Writer(FileWriter):
    """Writes objects; an object appears when it is complete."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(
            settings["topics.dir"], settings["format"], settings["flush.size"], settings["partition.by"]
        )
        self.settings = settings
        self._client: Any = None

    def store(self, name: str, data: bytes) -> None:
        """Make an object appear, whole."""
        import botocore.exceptions

        if self._client is None:
            self._client = client_of(self.settings)
        try:
            self._client.put_object(
                Bucket=self.settings["s3.bucket.name"], Key=f"{self.path}/{name}", Body=data
            )
        except botocore.exceptions.ClientError as error:
            if error.response["Error"]["Code"] in RETRIABLE:
                raise RetriableError(f"S3: {error}") from None
            raise ConnectError(f"S3: {error}") from None
        except botocore.exceptions.BotoCoreError as error:
            raise RetriableError(f"S3: {error}") from None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}
