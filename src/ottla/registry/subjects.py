"""Subject names and their contexts: `orders-value`, `:.staging:orders-value`, `:.staging:`, `:*:`.

A context is a name space of its own: subjects, ids, config and mode. Its name begins with a dot; the default
context is `.` and is not written. A qualified subject is `:CONTEXT:SUBJECT`; with an empty subject it stands
for the context itself, in config and mode. `.__GLOBAL` is the context whose config and mode count for all
contexts.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
WILDCARD = ":*:"
_RESERVED = frozenset({"__GLOBAL", "__EMPTY"})


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject and the context that it is in."""

    context: str
    name: str

    @property
    def is_context(self) -> bool:
        """Whether it stands for a whole context."""
        return not self.name

    @property
    def is_default_context(self) -> bool:
        """Whether it stands for the default context: what `/config` without a subject is about."""
        return self.context == DEFAULT_CONTEXT and not self.name

    @property
    def is_qualified(self) -> bool:
        """Whether it is in another context than the default one."""
        return self.context != DEFAULT_CONTEXT

    @property
    def prefix(self) -> str:
        """How the subjects of its context begin; empty for the default context."""
        return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"

    def __str__(self) -> str:
        return self.prefix + self.name


MAX_KEPT_CHARS = 300
"""Longer names are parsed anew each time: a request can hold one of megabytes."""


def parse_subject(text: str) -> Subject:
    """Split a subject as a client writes it."""
    return _parse_kept(text) if len(text) <= MAX_KEPT_CHARS else _parse(text)


def _parse(text: str) -> Subject:
    if text.startswith(":."):
        context, _, name = text[1:].partition(":")
        return Subject(context, name)
    if text.startswith(WILDCARD):
        return Subject("*", text[len(WILDCARD) :])
    return Subject(DEFAULT_CONTEXT, text)


_parse_kept = lru_cache(maxsize=65536)(_parse)


def normalize_subject(text: str) -> str:
    """Return the one way in which a subject is stored: without the default context."""
    return str(parse_subject(text))


def context_of(subject: str) -> str:
    """Return the context of a stored subject."""
    return parse_subject(subject).context if subject.startswith(":") else DEFAULT_CONTEXT


def normalize_context(context: str) -> str:
    """Return what a context's subjects begin with, from a name with or without dot and colons."""
    name = context.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise ValueError(f"Context name '{name}' cannot contain a colon")
    if not name.startswith("."):
        name = f".{name}"
    return "" if name == DEFAULT_CONTEXT else f":{name}:"


def in_context(parent: str, subject: str) -> str:
    """Return a subject that another one names: in the other's context, if it names none."""
    found = parse_subject(subject)
    if found.is_qualified:
        return str(found)
    return parse_subject(parent).prefix + found.name


def is_valid(text: str, *, for_config: bool = False) -> bool:
    """Return whether schemas (or, with `for_config`, a config or mode) may be kept under a subject."""
    if any(unicodedata.category(each) == "Cc" for each in text):
        return False
    subject = parse_subject(text)
    if subject.name in _RESERVED:
        return False
    return for_config or subject.context != GLOBAL_CONTEXT


def covers(subject: str | None, other: str) -> bool:
    """Return whether `other` is the subject, or in the context that it stands for; None stands for all."""
    if subject is None or subject == other:
        return True
    found = parse_subject(subject)
    return found.is_context and found.context in (GLOBAL_CONTEXT, context_of(other))
