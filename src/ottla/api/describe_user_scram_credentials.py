"""DescribeUserScramCredentials: the users of SCRAM, with their mechanisms.

v0 is the only version. Salts and keys are never shown, only mechanisms and iterations.
"""

from __future__ import annotations

from collections import Counter

from kio.schema.describe_user_scram_credentials.v0 import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kio.schema.describe_user_scram_credentials.v0.response import (
    CredentialInfo,
    DescribeUserScramCredentialsResult,
)

from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of
from ottla.protocol.errors import DuplicateResource, KafkaError, ResourceNotFound
from ottla.protocol.types import NO_THROTTLE, i8, i32
from ottla.security.acls import ResourceType
from ottla.security.scram import MECHANISM_CODES


def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, ctx: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """List the mechanisms of users; of all users if none is named."""
    if (refused := refusal(ctx, ResourceType.CLUSTER)) is not None:
        results = [_refused(user, refused) for user in {each.name: None for each in request.users or ()}]
        return _response(refused, results)
    credentials = ctx.services.cluster.image.scram_credentials
    infos: dict[str, list[CredentialInfo]] = {}
    for code, mechanism in MECHANISM_CODES.items():
        for (of_mechanism, user), credential in credentials.items():
            if of_mechanism == mechanism:
                info = CredentialInfo(mechanism=i8(code), iterations=i32(credential.iterations))
                infos.setdefault(user, []).append(info)
    if request.users:
        times = Counter(each.name for each in request.users)
    else:
        times = Counter(dict.fromkeys(sorted(infos), 1))
    return _response(None, [_described(user, count, infos.get(user, [])) for user, count in times.items()])


def _response(
    error: KafkaError | None, results: list[DescribeUserScramCredentialsResult]
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        error_code=code_of(error),
        error_message=message_of(error),
        results=tuple(results),
    )


def _refused(user: str, error: KafkaError) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=user, error_code=error.code, error_message=error.message, credential_infos=()
    )


def _described(user: str, times: int, infos: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
    error: KafkaError | None = None
    if times > 1:
        error = DuplicateResource(f"Cannot describe SCRAM credentials for the same user twice: {user}")
    elif not infos:
        error = ResourceNotFound(f"Attempt to describe a user credential that does not exist: {user}")
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=code_of(error),
        error_message=message_of(error),
        credential_infos=() if error else tuple(infos),
    )
