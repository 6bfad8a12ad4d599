"""What AlterConfigs and IncrementalAlterConfigs share: authorize, alter, audit."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.api.support.audit_log import audit_config_change
from ottla.api.support.context import RequestContext
from ottla.api.support.own_configs import refusals
from ottla.controller.machine import ConfigAlteration
from ottla.protocol.errors import KafkaError


async def alter_authorized(
    ctx: RequestContext, alterations: Sequence[ConfigAlteration], *, validate_only: bool, replacing: bool
) -> list[KafkaError | None]:
    """Alter what the client may alter and the broker can use; return one error or None per alteration."""
    refused = refusals(ctx, alterations)
    allowed = [each for each, error in zip(alterations, refused, strict=True) if error is None]
    altered = await ctx.services.controller.active_controller.alter_configs(
        allowed, validate_only=validate_only, replacing=replacing
    )
    if not validate_only:
        for each, outcome in zip(allowed, altered, strict=True):
            audit_config_change(ctx, each, outcome)
    outcomes = iter(altered)
    return [next(outcomes) if error is None else error for error in refused]
