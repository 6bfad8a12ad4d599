"""AlterUserScramCredentials: set and remove the SCRAM credentials of users.

v0 is the only version. Clients send salted passwords, never passwords; the controller stores two keys
that are derived from them.
"""

from __future__ import annotations

from kio.schema.alter_user_scram_credentials.v0 import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResult

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of
from ottla.controller.machine import ScramDeletion, ScramUpsertion
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType


async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, ctx: RequestContext
) -> AlterUserScramCredentialsResponse:
    """Set and remove credentials; return one result per user."""
    changes: list[ScramUpsertion | ScramDeletion] = [
        ScramDeletion(each.name, each.mechanism) for each in request.deletions
    ]
    changes += [
        ScramUpsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
        for each in request.upsertions
    ]
    results: dict[str, KafkaError | None]
    if (refused := refusal(ctx, ResourceType.CLUSTER)) is not None:
        results = {each.user: refused for each in changes}
    else:
        results = await ctx.services.controller.active_controller.alter_scram_credentials(changes)
        for user, error in results.items():
            audit_change(ctx, ResourceType.CLUSTER, f"SCRAM credentials of {user}", error)
    return AlterUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            AlterUserScramCredentialsResult(
                user=user, error_code=code_of(error), error_message=message_of(error)
            )
            for user, error in results.items()
        ),
    )
