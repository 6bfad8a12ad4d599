"""ApiVersions: the APIs that this broker serves, with their versions.

The first request of every client. v3 brings the client's software name and version and makes the request
flexible (the response header always stays v0, so that any client can read it); v4 allows features whose
oldest version is 0. An unknown version is answered in v0 by `unsupported_version`.

Features tell clients which protocols the whole cluster supports: `group.version` 1 is the consumer group
protocol (KIP-848), `transaction.version` 2 the transaction protocol of KIP-890. Old clients fail on a feature
whose oldest version is 0, so all of ours start at 1.
"""

from __future__ import annotations

import re

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.errors import ErrorCode

from ottla.api.support.context import RequestContext
from ottla.api.table import advertised
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.types import NO_THROTTLE, i16, i64

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

MAX_SOFTWARE_CHARS = 200

FEATURES = (("group.version", 1, 1), ("transaction.version", 1, 2))
"""Name, oldest and newest version; the newest is in use."""

_SUPPORTED = tuple(
    SupportedFeatureKey(name=name, min_version=i16(oldest), max_version=i16(newest))
    for name, oldest, newest in FEATURES
)
_IN_USE = tuple(
    FinalizedFeatureKey(name=name, min_version_level=i16(newest), max_version_level=i16(newest))
    for name, _, newest in FEATURES
)


def api_versions(request: ApiVersionsRequest, ctx: RequestContext) -> ApiVersionsResponse:
    """List every API of the table."""
    if ctx.version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(text):
                raise InvalidRequest(f"{text!r} is not a valid software name or version")
        software = f"{request.client_software_name} {request.client_software_version}"
        ctx.connection.software = software[:MAX_SOFTWARE_CHARS]
    return ApiVersionsResponse(
        error_code=ErrorCode.none,
        api_keys=tuple(
            ApiVersion(api_key=i16(key), min_version=i16(oldest), max_version=i16(newest))
            for key, oldest, newest in advertised()
        ),
        throttle_time=NO_THROTTLE,
        supported_features=_SUPPORTED,
        finalized_features_epoch=i64(0),
        finalized_features=_IN_USE,
    )


def unsupported_version() -> ApiVersionsResponse:
    """Return the response to an unknown version of ApiVersions: only the range of ApiVersions itself."""
    ranges = [row for row in advertised() if row[0] == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version,
        api_keys=tuple(
            ApiVersion(api_key=i16(key), min_version=i16(oldest), max_version=i16(newest))
            for key, oldest, newest in ranges
        ),
        throttle_time=NO_THROTTLE,
    )
