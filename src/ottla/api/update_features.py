"""UpdateFeatures: change the finalized level of features.

v1 has upgrade types instead of a flag and allows validation only; v2 returns one error for all. Ottla always
uses the newest level of every feature, so a request for the current level is accepted, and all others are
rejected with INVALID_UPDATE_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.errors import ErrorCode
from kio.schema.update_features import v1, v2
from kio.schema.update_features.v1.response import UpdatableFeatureResult

from ottla.api.api_versions import FEATURES
from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of
from ottla.protocol.errors import InvalidRequest, InvalidUpdateVersion, KafkaError
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType

_LEVELS = {name: (oldest, newest) for name, oldest, newest in FEATURES}


def update_features(request: v2.UpdateFeaturesRequest, ctx: RequestContext) -> v2.UpdateFeaturesResponse:
    """Accept the current levels; reject the whole request if one differs."""
    require(ctx, ResourceType.CLUSTER)
    wanted = [(each.feature, each.max_version_level) for each in request.feature_updates]
    error = _check_all(wanted) or next(filter(None, (_check(*each) for each in wanted)), None)
    return v2.UpdateFeaturesResponse(
        throttle_time=NO_THROTTLE, error_code=code_of(error), error_message=message_of(error)
    )


def update_features_one_by_one(
    request: v1.UpdateFeaturesRequest, ctx: RequestContext
) -> v1.UpdateFeaturesResponse:
    """Accept the current levels; return one result per feature."""
    require(ctx, ResourceType.CLUSTER)
    wanted = [(each.feature, each.max_version_level) for each in request.feature_updates]
    if (error := _check_all(wanted)) is not None:
        return v1.UpdateFeaturesResponse(
            throttle_time=NO_THROTTLE, error_code=error.code, error_message=error.message, results=()
        )
    results = [(name, _check(name, level)) for name, level in wanted]
    return v1.UpdateFeaturesResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            UpdatableFeatureResult(feature=name, error_code=code_of(result), error_message=message_of(result))
            for name, result in results
        ),
    )


def _check_all(wanted: Iterable[tuple[str, int]]) -> KafkaError | None:
    names = [name for name, _ in wanted]
    if not names:
        return InvalidRequest("the request names no feature")
    if len(set(names)) < len(names):
        return InvalidRequest("the request names a feature more than once")
    return None


def _check(name: str, level: int) -> KafkaError | None:
    if name not in _LEVELS:
        known = ", ".join(_LEVELS)
        return InvalidUpdateVersion(f"unknown feature {name!r}; the features are {known}")
    oldest, newest = _LEVELS[name]
    if level == newest:
        return None
    if oldest <= level < newest:
        return InvalidUpdateVersion(f"{name} is at level {newest} and cannot be downgraded")
    return InvalidUpdateVersion(f"{name} has no level {level}; the newest is {newest}")
