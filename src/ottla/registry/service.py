"""Serves requests: decide from the state, append, and decide again after a conflict.

Look-ups of what never changes (an id, a GUID) answer from memory, and catch up only if they find nothing.
Whatever may change (latest versions, lists, config, mode) catches up first: no answer is older than the last
write that any process has acknowledged. Nothing here knows HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.registry import errors, registration
from ottla.registry.decisions import Decision
from ottla.registry.entities import AVRO, StoredSchema
from ottla.registry.jobs import (
    ChangeTags,
    Check,
    Decode,
    FindEquivalent,
    FindTags,
    InvalidSchema,
    Job,
    JobFailed,
    Parse,
    PropagateTags,
    Render,
    Tags,
)
from ottla.registry.registration import Examined, Prepared, RegisterRequest, Source
from ottla.registry.schema_log import SchemaLog
from ottla.registry.state import RegistryState
from ottla.registry.topic import Conflict
from ottla.registry.workers import JobTimedOut, Workers, WorkersBusy

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 100


class Registry:
    """Reads and changes schemas, for any number of clients at once."""

    def __init__(self, schema_log: SchemaLog, workers: Workers) -> None:
        self.log = schema_log
        self._workers = workers

    @property
    def state(self) -> RegistryState:
        """The state as it is here, perhaps older than the last write of another process."""
        return self.log.state

    async def fresh(self) -> RegistryState:
        """Return a state that has everything that was written before the call."""
        return await self.log.catch_up()

    # Changes

    async def change(self, decide: Callable[[RegistryState], Decision]) -> Any:
        """Write what is decided from the state, and return the answer; decide again after a conflict."""
        for _ in range(MAX_ATTEMPTS):
            async with self.log.writing:
                state = await self._to_write_from()
                try:
                    decision = decide(state)
                except errors.RegistryError:
                    if not await self._is_current(state):
                        continue
                    raise
                if decision.records:
                    try:
                        await self.log.append(decision.records)
                    except Conflict:
                        await self.fresh()
                        continue
                elif not await self._is_current(state):
                    continue
                return decision.answer
        raise errors.timed_out("Too many others write at the same time")

    async def _to_write_from(self) -> RegistryState:
        """Return the state that a change is decided from."""
        return await self.fresh() if self.log.reads_before_writes else self.state

    async def _is_current(self, state: RegistryState) -> bool:
        """Return whether a state, from which nothing is written, was the newest."""
        position = state.position
        return await self.fresh() is state and state.position == position

    async def register(
        self, subject: str, request: RegisterRequest, *, normalize: bool = False, force: bool = False
    ) -> StoredSchema:
        """Register a schema under a subject, or find it there; return its version."""
        for _ in range(MAX_ATTEMPTS):
            state, position = self.state, self.state.position
            try:
                found = await self._find_unchanged(state, subject, request, normalize)
                if found is None:
                    found, is_written = await self._register(subject, request, normalize, force)
                    if is_written:
                        return found
            except Conflict:
                await self.fresh()
                continue
            except errors.RegistryError as error:
                if error.costly or (await self.fresh() is state and state.position == position):
                    raise
                continue
            if await self.fresh() is state and state.position == position:
                return found
        raise errors.timed_out("Register operation timed out")

    async def _find_unchanged(
        self, state: RegistryState, subject: str, request: RegisterRequest, normalize: bool
    ) -> StoredSchema | None:
        """Return the version that has this schema already; errors are left to those who register it."""
        if not request.schema.strip():
            return None
        prepared = registration.prepare_lookup(state, subject, request, normalize=normalize)
        canonical = await self._canonical(prepared, is_new=False)
        found = registration.find_unchanged(state, subject, request, prepared, canonical)
        if found is None and request.version == 0 and request.id < 0:
            found = await self._find_equivalent(state, prepared, canonical)
        return found

    async def _find_equivalent(
        self, state: RegistryState, prepared: Prepared, canonical: str, *, deleted: bool = False
    ) -> StoredSchema | None:
        """Return the version that holds an Avro schema with another text: see `equivalent_candidates`."""
        definition = replace(prepared.definition, schema=canonical)
        candidates = registration.equivalent_candidates(state, prepared.subject, definition, deleted=deleted)
        known: list[tuple[StoredSchema, Source]] = []
        for each in candidates:
            with contextlib.suppress(errors.RegistryError):  # what it refers to is not there
                known.append((each, _source(state, each)))
        if not known:
            return None
        others = tuple(source for _, source in known)
        try:
            found = await self._process(FindEquivalent(replace(prepared.source, text=canonical), others))
        except errors.RegistryError as error:
            if error.code == errors.TIMED_OUT:
                raise
            return None  # the others take too long to parse: it counts as another schema
        return None if found is None else known[found][0]

    async def _register(
        self, subject: str, request: RegisterRequest, normalize: bool, force: bool
    ) -> tuple[StoredSchema, bool]:
        """Parse and check without holding up other writers, then decide and write; tell whether it wrote."""
        prepared = registration.prepare(self.state, subject, request, normalize=normalize)
        canonical = await self._canonical(prepared)
        examined = registration.examine(self.state, prepared, canonical, force=force)
        messages = await self._check(prepared, canonical, examined)
        async with self.log.writing:
            state = await self._to_write_from()
            again = registration.prepare(state, subject, request, normalize=normalize)
            if again != prepared or registration.examine(state, again, canonical, force=force) != examined:
                raise Conflict  # what was checked is not what there is now
            if messages:
                raise errors.incompatible(subject, messages)
            decision = registration.decide(state, prepared, canonical, examined)
            schema = decision.answer
            assert isinstance(schema, StoredSchema)
            if not decision.records:
                return schema, False
            await self.log.append(decision.records)
            return self.state.get(subject, schema.version) or schema, True

    async def _canonical(self, prepared: Prepared, *, is_new: bool = True) -> str:
        """Return a schema's text as it is kept; raise 42201 if it is none.

        One that is looked up may have been stored under laxer rules: by an import, or by another registry.
        """
        is_checked = is_new and not prepared.is_import
        validate = is_checked and (prepared.validates_new or prepared.definition.schema_type != AVRO)
        validates_fields = is_checked and prepared.validates_fields
        return str(
            await self._process(Parse(prepared.source, prepared.normalize, validate, validates_fields))
        )

    async def _check(self, prepared: Prepared, canonical: str, examined: Examined) -> list[str]:
        if examined.existing is not None:
            return []
        source = replace(prepared.source, text=canonical)
        return await self.check(source, examined)

    async def check(self, source: Source, examined: Examined) -> list[str]:
        """Return what makes a schema incompatible with earlier ones, in words; nothing if nothing does."""
        if not examined.has_to_check:
            return []
        messages = [
            f"The new schema has reserved field {name} removed from its metadata "
            "which is present in the old schema's metadata."
            for name in examined.not_reserved
        ]
        job = Check(examined.level, source, examined.previous, examined.lenient, examined.reserved)
        messages += await self._process(job)
        if messages:
            validates = "true" if examined.validates_fields else "false"
            messages.append(f"{{validateFields: '{validates}', compatibility: '{examined.level}'}}")
        return messages

    async def _run(self, job: Job) -> Any:
        try:
            return await self._workers.run(job)
        except JobTimedOut:
            error = errors.invalid_schema(
                "The schema took too long to parse or to compare: it is too large or too deeply nested"
            )
        except WorkersBusy:
            error = errors.timed_out("The registry is busy with other schemas. Try again")
        except JobFailed as failure:
            log.error("a job on a schema failed: %s", failure)
            error = errors.RegistryError(500, "The schema could not be processed")
        error.costly = True
        raise error

    async def render(self, state: RegistryState, schema: StoredSchema, format_name: str) -> str:
        """Return a stored schema's text in a format of its kind: resolved, serialized, ..."""
        return str(await self._process(Render(_source(state, schema), format_name)))

    async def change_tags(self, state: RegistryState, schema: StoredSchema, add: Tags, remove: Tags) -> str:
        """Return a stored schema's text with other tags on its records and fields."""
        return str(await self._process(ChangeTags(_source(state, schema), add, remove)))

    async def with_tags(
        self, subject: str, request: RegisterRequest, add: Tags, remove: Tags
    ) -> RegisterRequest:
        """Return a request to register a schema with other tags on its records and fields."""
        source = registration.prepare_lookup(await self.fresh(), subject, request, normalize=False).source
        return replace(request, schema=str(await self._process(ChangeTags(source, add, remove))))

    async def with_earlier_tags(self, subject: str, request: RegisterRequest) -> RegisterRequest:
        """Return a request to register a schema with the tags of the subject's latest version."""
        state = await self.fresh()
        latest = state.get(subject, -1)
        if latest is None:
            return request
        source = registration.prepare_lookup(state, subject, request, normalize=False).source
        job = PropagateTags(source, _source(state, latest))
        return replace(request, schema=str(await self._process(job)))

    async def decode(self, state: RegistryState, schema: StoredSchema, body: bytes) -> list[tuple[int, str]]:
        """Return which of many records do not decode with a stored schema, and why."""
        found: list[tuple[int, str]] = await self._process(Decode(_source(state, schema), body))
        return found

    async def find_tags(self, state: RegistryState, schema: StoredSchema) -> Tags:
        """Return the tags of the records and fields of a stored schema."""
        found: Tags = await self._process(FindTags(_source(state, schema)))
        return found

    async def _process(self, job: Job) -> Any:
        try:
            return await self._run(job)
        except InvalidSchema as error:
            raise errors.invalid_schema(str(error)) from None

    # Look-ups that need a parser

    async def look_up(
        self, subject: str, request: RegisterRequest, *, normalize: bool = False, deleted: bool = False
    ) -> StoredSchema:
        """Return the version of a subject that holds a schema; raise 40401 or 40403 if none does."""
        state = await self.fresh()
        names = [subject] if request.schema.strip() else []  # no version holds an empty text
        if not subject.startswith(":"):
            names += [f":{context}:{subject}" for context in state.contexts]
        for name in names:
            if name != subject and name not in state.subjects:
                continue
            try:
                prepared = registration.prepare_lookup(state, name, request, normalize=normalize)
                canonical = await self._canonical(prepared, is_new=False)
            except errors.RegistryError as error:
                if name == subject or error.code == errors.TIMED_OUT:
                    raise
                continue
            found = registration.find_completed(state, name, prepared, canonical, deleted=deleted)
            if found is None:
                found = await self._find_equivalent(state, prepared, canonical, deleted=deleted)
            if found is not None:
                return found
        if names and request.schema_type not in (None, AVRO):
            await self._canonical(
                registration.prepare_lookup(state, subject, request, normalize=normalize)
            )  # says what is wrong with it, as Confluent's registry does
        if not state.has_subjects(subject, deleted=deleted):
            raise errors.subject_not_found(subject)
        raise errors.schema_not_found()

    async def test_compatibility(
        self, subject: str, request: RegisterRequest, version: int | None, *, normalize: bool = False
    ) -> list[str]:
        """Return what makes a schema incompatible with a version (-1: the latest), or with all (None)."""
        state = await self.fresh()
        prepared = registration.prepare_lookup(state, subject, request, normalize=normalize)
        canonical = await self._canonical(prepared)
        if version is None:
            schemas = state.versions(subject)
        else:
            found = state.get(subject, version)
            if found is None and version != -1:
                raise errors.version_not_found(version)
            schemas = [] if found is None else [found]
        definition = replace(prepared.definition, schema=canonical)
        examined = registration.to_check(state, subject, definition, schemas)
        return await self.check(replace(prepared.source, text=canonical), examined)

    async def settle(self) -> None:
        """Read the topic up to its end, before the first request is answered."""
        while True:
            try:
                await self.fresh()
            except errors.RegistryError as error:
                log.warning("%s", error.message)
                await asyncio.sleep(0.2)
            else:
                return


def _source(state: RegistryState, schema: StoredSchema) -> Source:
    return registration.source_of(state, schema.subject, schema.definition)
