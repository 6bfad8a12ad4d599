"""Decisions about the quotas of users, client ids and addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.controller.machine.requests import Decision
from ottla.metadata.image import ClusterImage
from ottla.metadata.records import ClientQuotaChanged, MetadataRecord
from ottla.protocol.errors import InvalidRequest, KafkaError
from ottla.security.quota_entities import check_quota, quota_entity


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """The changes to one entity, applied completely or not at all; a value of None removes the quota."""

    entity: tuple[tuple[str, str | None], ...]
    changes: tuple[tuple[str, float | None], ...]


def alter_client_quotas(image: ClusterImage, alterations: Sequence[QuotaAlteration]) -> Decision[None]:
    """Set and remove quotas; a quota that does not change leaves no record."""
    records: list[MetadataRecord] = []
    results: list[KafkaError | None] = []
    times = Counter(frozenset(each.entity) for each in alterations)
    for each in alterations:
        try:
            if times[frozenset(each.entity)] > 1:
                raise InvalidRequest("the request names this entity more than once")
            records.extend(_changes(image, each))
        except KafkaError as error:
            results.append(error)
        else:
            results.append(None)
    return Decision(tuple(records), tuple(results))


def _changes(image: ClusterImage, alteration: QuotaAlteration) -> list[ClientQuotaChanged]:
    entity = quota_entity(alteration.entity)
    before = image.client_quotas.get(entity, {})
    after: dict[str, float | None] = {}
    for key, value in alteration.changes:
        if key in after:
            raise InvalidRequest(f"{key}: the request names this key more than once")
        check_quota(entity, key, 1 if value is None else value)
        after[key] = value
    return [
        ClientQuotaChanged(entity, key, value) for key, value in after.items() if before.get(key) != value
    ]
