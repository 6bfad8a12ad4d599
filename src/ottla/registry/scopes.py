"""Which config and which mode count for a subject: its own, its context's, or those of all.

A subject without a config of its own has that of its context; one in the default context has the top-level
config; and last comes the config of `.__GLOBAL`. A subject's own config is laid over the top-level one, but
only for some fields: its aliases, defaults and overrides are never inherited.
"""

from __future__ import annotations

from ottla.registry.entities import Json
from ottla.registry.state import RegistryState
from ottla.registry.subjects import GLOBAL_CONTEXT, in_context, normalize_subject, parse_subject

DEFAULT_LEVEL = "BACKWARD"
DEFAULT_MODE = "READWRITE"
GLOBAL_SUBJECT = f":{GLOBAL_CONTEXT}:"
INHERITED = (
    "normalize",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
    "compatibilityPolicy",
    "compatibilityGroup",
)
FIELD_ORDER = (
    "alias",
    "aliasForDeks",
    "normalize",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
    "compatibilityLevel",
    "compatibilityPolicy",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)
IMPORTING = frozenset({"IMPORT", "FORWARD"})
READ_ONLY = frozenset({"READONLY", "READONLY_OVERRIDE"})


def _scopes(subject: str | None) -> list[str | None]:
    """Return where to look for what counts for a subject, nearest first."""
    if subject is None:
        return [None, GLOBAL_SUBJECT]
    parsed = parse_subject(subject)
    return list(dict.fromkeys([subject, parsed.prefix if parsed.is_qualified else None, GLOBAL_SUBJECT]))


def _is_top_level(subject: str | None) -> bool:
    return subject is None or parse_subject(subject).context == GLOBAL_CONTEXT


def own_config(state: RegistryState, subject: str | None) -> Json | None:
    """Return the config that was set for a subject, a context or all; None if there is none."""
    config = state.configs.get(subject)
    if config is None:
        return {"compatibilityLevel": DEFAULT_LEVEL} if _is_top_level(subject) else None
    return _ordered({"compatibilityLevel": DEFAULT_LEVEL, **config})


def config_in_scope(state: RegistryState, subject: str | None) -> Json:
    """Return the config in effect for a subject."""
    own = own_config(state, subject) if subject is None or subject in state.configs else None
    if own is not None and subject is not None:
        top = state.configs.get(None, {})
        return _ordered({**{name: top[name] for name in INHERITED if name in top}, **own})
    for scope in _scopes(subject):
        if scope in state.configs:
            return own_config(state, scope) or {}
    return {"compatibilityLevel": DEFAULT_LEVEL}


def own_mode(state: RegistryState, subject: str | None) -> str | None:
    """Return the mode that was set for a subject, a context or all; None if there is none."""
    return state.modes.get(subject, DEFAULT_MODE if _is_top_level(subject) else None)


def mode_in_scope(state: RegistryState, subject: str | None) -> str:
    """Return the mode in effect for a subject."""
    for scope in _scopes(subject):
        if scope in state.modes:
            return state.modes[scope]
    return DEFAULT_MODE


def has_defaults(config: Json) -> bool:
    """Return whether a config changes the metadata or rules of what is registered."""
    return any(
        config.get(name) is not None
        for name in ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")
    )


def resolve_alias(state: RegistryState, subject: str) -> str:
    """Return the subject that an alias stands for, or the subject itself."""
    alias = state.configs.get(subject, {}).get("alias")
    return in_context(subject, alias) if alias else subject


def resolve_alias_of_keys(state: RegistryState, subject: str) -> str:
    """Return the subject whose DEKs a subject has: by `aliasForDeks`, by its alias, or the subject itself."""
    config = state.configs.get(normalize_subject(subject), {})
    alias = config.get("aliasForDeks") or config.get("alias")
    return in_context(subject, alias) if alias else subject


def _ordered(config: Json) -> Json:
    return {name: config[name] for name in FIELD_ORDER if config.get(name) is not None}
