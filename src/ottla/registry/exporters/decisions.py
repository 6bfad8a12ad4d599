"""What is decided about exporters: records to write and an answer, from a state and a request. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.registry.contracts import malformed
from ottla.registry.entities import Json
from ottla.registry.errors import RegistryError
from ottla.registry.exporters.records import (
    CONTEXT_TYPES,
    EXPORTER,
    HIDDEN,
    PLACEHOLDER,
    STATUS,
    URL_KEY,
    Exporter,
    ExporterRecord,
    ExporterState,
    Status,
)
from ottla.registry.subjects import normalize_context

MAX_EXPORTERS = 10
MAX_NAME = 256
_NAME = re.compile(r"[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class ExporterDecision:
    """What to write, in one batch, and what to answer when it is written."""

    answer: Any
    records: list[ExporterRecord] = field(default_factory=list)


def found_exporter(state: ExporterState, name: str) -> Exporter:
    """Return an exporter; raise 40450."""
    found = state.exporters.get(name)
    if found is None:
        raise RegistryError(40450, f"Exporter '{name}' not found")
    return found


def create(state: ExporterState, body: Json) -> ExporterDecision:
    """Create an exporter, which begins to run."""
    name = body.get("name")
    if not isinstance(name, str) or len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise RegistryError(40950, f"Missing or invalid exporter name: {name}")
    if name in state.exporters:
        raise RegistryError(40960, f"Exporter '{name}' already exists")
    if len(state.exporters) >= MAX_EXPORTERS:
        raise RegistryError(40964, f"Too many exporters: there may be {MAX_EXPORTERS}")
    exporter = _changed(Exporter(name), body)
    if not exporter.config:
        raise _invalid_config(f"{URL_KEY} is missing")
    return ExporterDecision({"name": name}, [ExporterRecord(EXPORTER, name, exporter)])


def update(state: ExporterState, name: str, body: Json) -> ExporterDecision:
    """Change a paused exporter; what is not given stays."""
    exporter = found_exporter(state, name)
    if not exporter.is_paused:
        raise RegistryError(40963, f"Exporter '{name}' is not paused")
    changed = replace(_changed(exporter, body), epoch=exporter.epoch + 1)
    return ExporterDecision({"name": name}, [ExporterRecord(EXPORTER, name, changed)])


def delete(state: ExporterState, name: str) -> ExporterDecision:
    """Delete an exporter; the copied schemas are kept."""
    found_exporter(state, name)
    records = [ExporterRecord(STATUS, name, None), ExporterRecord(EXPORTER, name, None)]
    return ExporterDecision(None, records)


def pause(state: ExporterState, name: str) -> ExporterDecision:
    """Pause an exporter."""
    return _set(state, name, lambda exporter: replace(exporter, is_paused=True))


def resume(state: ExporterState, name: str) -> ExporterDecision:
    """Resume a paused exporter."""
    if not found_exporter(state, name).is_paused:
        raise RegistryError(40961, f"Exporter '{name}' is already running")
    return _set(state, name, lambda exporter: replace(exporter, is_paused=False))


def reset(state: ExporterState, name: str) -> ExporterDecision:
    """Reset a paused exporter: it copies everything again once it is resumed."""
    if not found_exporter(state, name).is_paused:
        raise RegistryError(40963, f"Exporter '{name}' is not paused")
    return _set(state, name, lambda exporter: replace(exporter, epoch=exporter.epoch + 1))


def report(state: ExporterState, name: str, status: Status) -> ExporterDecision:
    """Store the status of an exporter, unless it was deleted or changed in the meantime."""
    exporter = state.exporters.get(name)
    if exporter is None or exporter.epoch != status.epoch:
        return ExporterDecision(None)
    if replace(state.status(name), timestamp=status.timestamp) == status:  # the same for as long
        return ExporterDecision(None)
    return ExporterDecision(None, [ExporterRecord(STATUS, name, status)])


def _set(state: ExporterState, name: str, change: Callable[[Exporter], Exporter]) -> ExporterDecision:
    exporter = found_exporter(state, name)
    changed = change(exporter)
    records = [] if changed == exporter else [ExporterRecord(EXPORTER, name, changed)]
    return ExporterDecision({"name": name}, records)


def _changed(exporter: Exporter, body: Json) -> Exporter:
    kind = str(body.get("contextType") or exporter.context_type).upper()
    if kind not in CONTEXT_TYPES:
        raise malformed(f"contextType is one of {', '.join(CONTEXT_TYPES)}")
    context = exporter.context
    if body.get("context") is not None:
        try:
            context = normalize_context(str(body["context"])).strip(":") or "."
        except ValueError as error:
            raise malformed(str(error)) from None
    rename = body.get("subjectRenameFormat") or exporter.rename_format
    if not isinstance(rename, str) or PLACEHOLDER not in rename:
        raise malformed(f"subjectRenameFormat must contain {PLACEHOLDER}")
    return replace(
        exporter,
        context_type=kind,
        context=context,
        subjects=exporter.subjects if body.get("subjects") is None else _subjects(body["subjects"]),
        rename_format=rename,
        config=exporter.config if body.get("config") is None else _config(exporter.config, body["config"]),
    )


def _subjects(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise RegistryError(40952, f"Invalid exporter subjects: {value}")
    return tuple(value) or ("*",)


def _config(old: dict[str, str], value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _invalid_config("it is not an object")
    given = {str(name): str(each) for name, each in value.items()}
    url = given.get(URL_KEY, "")
    if not url.startswith(("http://", "https://")):
        raise _invalid_config(f"{URL_KEY} begins with http:// or https://")
    if "@" in url:
        raise _invalid_config(f"{URL_KEY} names a user, and is no secret; use basic.auth.user.info")
    if HIDDEN in given.values() and url != old.get(URL_KEY, url):
        # Otherwise who may not read a secret could have it sent to a server of their own.
        raise _invalid_config(f"{URL_KEY} changes, so secrets that are {HIDDEN} must be given again")
    return {name: old.get(name, each) if each == HIDDEN else each for name, each in given.items()}


def _invalid_config(why: str) -> RegistryError:
    return RegistryError(40951, f"Missing or invalid exporter config: {why}")
