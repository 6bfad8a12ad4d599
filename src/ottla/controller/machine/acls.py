"""Decisions about ACLs."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.controller.machine.requests import Decision
from ottla.metadata.image import ClusterImage
from ottla.metadata.records import AclCreated, AclDeleted, MetadataRecord
from ottla.protocol.errors import KafkaError
from ottla.security.acls import AclBinding, AclFilter, check_binding, check_filter

Deleted = tuple[AclBinding, ...]


def create_acls(image: ClusterImage, bindings: Sequence[AclBinding]) -> Decision[None]:
    """Add ACLs; one that exists already is accepted without effect."""
    added: dict[AclBinding, None] = {}
    results: list[KafkaError | None] = []
    for acl in bindings:
        try:
            check_binding(acl)
        except KafkaError as error:
            results.append(error)
        else:
            if acl not in image.acls:
                added[acl] = None
            results.append(None)
    records: list[MetadataRecord] = [AclCreated(*acl) for acl in added]
    return Decision(tuple(records), tuple(results))


def delete_acls(image: ClusterImage, filters: Sequence[AclFilter]) -> Decision[Deleted]:
    """Remove the ACLs that match; return those of each filter, also if another filter names them too."""
    removed: dict[AclBinding, None] = {}
    results: list[Deleted | KafkaError] = []
    for wanted in filters:
        try:
            check_filter(wanted)
        except KafkaError as error:
            results.append(error)
        else:
            matching = tuple(acl for acl in image.acls if wanted.matches(acl))
            removed.update(dict.fromkeys(matching))
            results.append(matching)
    records: list[MetadataRecord] = [AclDeleted(*acl) for acl in removed]
    return Decision(tuple(records), tuple(results))
