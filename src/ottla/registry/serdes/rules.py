"""Refuses schemas with rules that a serde would have to run.

A rule may encrypt a field, or refuse a record. Without it, a serde would write what must not be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.registry.serdes.errors import SerdeError


def check_no_rules(rule_set: Mapping[str, Any] | None, mode: str) -> None:
    """Raise SerdeError if a rule applies to WRITE or READ."""
    for kind in ("domainRules", "encodingRules"):
        for rule in (rule_set or {}).get(kind) or ():
            if not rule.get("disabled") and rule.get("mode") in (mode, "WRITEREAD", None):
                raise SerdeError(
                    f"the schema has the rule {rule.get('name')} ({rule.get('type')}), which runs on "
                    f"{mode.lower()} and is not supported. Set ignore_rules=True to continue without it"
                )
