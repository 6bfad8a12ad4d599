"""Changes associations: registers the schemas that come with them, then writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import new_uuid
from ottla.registry import decisions, errors
from ottla.registry.associations import (
    AssociationRequest,
    Target,
    associate,
    check_subjects,
    complete,
    disassociate,
    subject_of,
)
from ottla.registry.entities import StoredSchema
from ottla.registry.service import Registry

NOT_THERE = (40401, 40403, 42201)
"""No subject, no schema; or it is no schema, which is said after what is wrong with the association."""


class AssociationChanges:
    """Associates subjects with topics, and parts them again."""

    def __init__(self, registry: Registry, clock: Clock | None = None) -> None:
        self._registry = registry
        self._clock = clock or SystemClock()

    async def put(
        self, target: Target, wanted: Sequence[AssociationRequest], *, is_create: bool, dry_run: bool
    ) -> tuple[list[AssociationRequest], dict[str, StoredSchema]]:
        """Associate subjects with a topic; return how, and which schemas were registered, by type.

        Nothing is written before everything is checked. A request that was cut off may be repeated.
        """
        known = [await self._with_known_schema(target, each) for each in wanted]
        state = await self._registry.fresh()
        full = [complete(state, target, each, is_create=is_create) for each in known]
        check_subjects(state, target, full)
        for each in full:
            await self._check_schema(each)
        if dry_run:
            return full, {}
        schemas = {}
        for each in full:
            if each.schema is not None and each.subject is not None:
                schemas[each.association_type] = await self._registry.register(
                    each.subject, each.schema, normalize=each.normalize
                )
        guids = [str(new_uuid()) for _ in full]
        now_ms = self._clock.wall_ms()
        answers = await self._registry.change(
            lambda state: associate(state, target, full, guids, now_ms, is_create=is_create)
        )
        return answers, schemas

    async def _with_known_schema(self, target: Target, wanted: AssociationRequest) -> AssociationRequest:
        """Note whether the subject has the schema already."""
        if wanted.schema is None:
            return wanted
        subject = subject_of(await self._registry.fresh(), target, wanted)
        try:
            await self._registry.look_up(subject, wanted.schema, normalize=wanted.normalize)
        except errors.RegistryError as error:
            if error.code not in NOT_THERE:
                raise
            return wanted
        return replace(wanted, has_schema=True)

    async def _check_schema(self, wanted: AssociationRequest) -> None:
        """Refuse a schema that is none, or that cannot follow those that are there."""
        if wanted.schema is None or wanted.subject is None or wanted.has_schema:
            return
        messages = await self._registry.test_compatibility(
            wanted.subject, wanted.schema, None, normalize=wanted.normalize
        )
        if messages:
            raise errors.incompatible(wanted.subject, messages)

    async def delete(
        self,
        resource_id: str,
        resource_type: str | None,
        types: Sequence[str],
        *,
        cascade: bool,
        dry_run: bool,
        must_exist: bool = True,
    ) -> None:
        """Remove associations of a topic; with `cascade`, the subjects that belong to it alone as well."""
        decide = partial(
            disassociate,
            resource_id=resource_id,
            resource_type=resource_type,
            types=types,
            cascade=cascade,
            must_exist=must_exist,
        )
        if dry_run:
            decide(await self._registry.fresh())
            return
        for subject in await self._registry.change(decide):
            await self._registry.change(partial(decisions.delete_subject, subject=subject, permanent=True))
