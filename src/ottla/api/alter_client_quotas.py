"""AlterClientQuotas: set and remove quotas of users, client ids and addresses.

v1 is flexible. The changes of one entity are atomic; other entities of the request succeed or fail
independently.
"""

from __future__ import annotations

from kio.schema.alter_client_quotas.v1 import AlterClientQuotasRequest, AlterClientQuotasResponse
from kio.schema.alter_client_quotas.v1.response import EntityData, EntryData

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of
from ottla.controller.machine import QuotaAlteration
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType
from ottla.security.quota_entities import entity_text


async def alter_client_quotas(
    request: AlterClientQuotasRequest, ctx: RequestContext
) -> AlterClientQuotasResponse:
    """Change the quotas; return one result per entity."""
    alterations = [
        QuotaAlteration(
            tuple((part.entity_type, part.entity_name) for part in each.entity),
            tuple((op.key, None if op.remove else float(op.value)) for op in each.ops),
        )
        for each in request.entries
    ]
    denied = refusal(ctx, ResourceType.CLUSTER)
    if denied is not None:
        results: list[KafkaError | None] = [denied] * len(alterations)
    else:
        results = await ctx.services.controller.active_controller.alter_client_quotas(
            alterations, validate_only=request.validate_only
        )
        if not request.validate_only:
            for each, result in zip(alterations, results, strict=True):
                audit_change(ctx, ResourceType.CLUSTER, f"quotas of {entity_text(each.entity)}", result)
    entries = tuple(
        EntryData(
            error_code=code_of(result),
            error_message=message_of(result),
            entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in each.entity),
        )
        for each, result in zip(alterations, results, strict=True)
    )
    return AlterClientQuotasResponse(throttle_time=NO_THROTTLE, entries=entries)
