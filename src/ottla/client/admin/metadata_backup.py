"""Ask a cluster of Ottla for its metadata, and have it restored (APIs of Ottla's own)."""

from __future__ import annotations

import json
import zlib
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import UnsupportedVersion
from ottla.protocol.own_messages import (
    DumpMetadataRequest,
    DumpMetadataResponse,
    RestoreMetadataRequest,
    RestoreMetadataResponse,
)

NOT_OTTLA = "these brokers cannot give their metadata: they are not Ottla, or too old"


class MetadataDump(NamedTuple):
    """The records that create the metadata of a version, as lines of JSON."""

    version: int
    records: str


class Outcome(NamedTuple):
    """What became of one thing of a backup: created, changed, same, differs or failed."""

    kind: str
    name: str
    action: str
    detail: str


async def dump_metadata(cluster: Cluster) -> MetadataDump:
    """Return the metadata; raise UnsupportedVersion if the brokers are not Ottla."""

    async def attempt() -> DumpMetadataResponse:
        connection = await cluster.any_broker()
        if ApiKey.DUMP_METADATA not in connection.session.versions:
            raise UnsupportedVersion(NOT_OTTLA)
        response = await connection.request(DumpMetadataRequest(), DumpMetadataResponse)
        raise_for(response.error_code, response.error_message)
        return response

    response = await cluster.retrying(attempt, what="the metadata was not read")
    return MetadataDump(response.version, zlib.decompress(response.records).decode())


async def restore_metadata(
    cluster: Cluster, records: str, *, overwrite: bool = False, validate_only: bool = False
) -> list[Outcome]:
    """Create what the records have and the cluster has not; return what became of each thing."""
    request = RestoreMetadataRequest(
        records=zlib.compress(records.encode()), overwrite=overwrite, validate_only=validate_only
    )

    async def attempt() -> RestoreMetadataResponse:
        connection = await cluster.controller()
        if ApiKey.RESTORE_METADATA not in connection.session.versions:
            raise UnsupportedVersion(NOT_OTTLA)
        response = await connection.request(request, RestoreMetadataResponse)
        raise_for(response.error_code, response.error_message)
        return response

    response = await cluster.retrying(attempt, what="the metadata was not restored")
    return [Outcome(*map(str, each)) for each in json.loads(response.outcomes)]
