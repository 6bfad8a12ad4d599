"""Quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kio.schema.alter_client_quotas.v1 import AlterClientQuotasRequest, AlterClientQuotasResponse
from kio.schema.alter_client_quotas.v1.request import EntityData, EntryData, OpData
from kio.schema.describe_client_quotas.v1 import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kio.schema.describe_client_quotas.v1.request import ComponentData

from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.protocol.types import f64, i8

_EXACT, _DEFAULT, _ANY = i8(0), i8(1), i8(2)


@dataclass(frozen=True, slots=True)
class EntityQuotas:
    """The quotas of one entity: `{"user": "alice"}`; a name of None is the default of its type."""

    entity: Mapping[str, str | None]
    quotas: Mapping[str, float]


async def list_quotas(
    cluster: Cluster, entity: Mapping[str, str | None], types: Iterable[str], *, strict: bool
) -> list[EntityQuotas]:
    """Return the quotas of the entities that have these names, and these types with any name."""
    components = [
        ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for kind, name in entity.items()
    ]
    components += [ComponentData(entity_type=kind, match_type=_ANY, match=None) for kind in types]
    request = DescribeClientQuotasRequest(components=tuple(components), strict=strict)

    async def attempt() -> list[EntityQuotas]:
        response = await (await cluster.any_broker()).request(request, DescribeClientQuotasResponse)
        raise_for(response.error_code, response.error_message)
        return [
            EntityQuotas(
                {part.entity_type: part.entity_name for part in each.entity},
                {value.key: float(value.value) for value in each.values},
            )
            for each in response.entries or ()
        ]

    return await cluster.retrying(attempt, what="the quotas were not listed")


async def alter_quotas(
    cluster: Cluster,
    entity: Mapping[str, str | None],
    set_to: Mapping[str, float],
    unset: Sequence[str],
    *,
    validate_only: bool,
) -> None:
    """Set some quotas of an entity, and remove others."""
    changes = [OpData(key=key, value=f64(value), remove=False) for key, value in set_to.items()]
    changes += [OpData(key=key, value=f64(0), remove=True) for key in unset]
    parts = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items())
    request = AlterClientQuotasRequest(
        entries=(EntryData(entity=parts, ops=tuple(changes)),), validate_only=validate_only
    )

    async def attempt() -> None:
        connection = await cluster.controller()
        response = await connection.request(request, AlterClientQuotasResponse)
        for each in response.entries:
            raise_for(each.error_code, each.error_message)

    await cluster.retrying(attempt, what="the quotas were not changed")
