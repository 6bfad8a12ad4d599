"""The user name of a Kerberos principal, by the rules of `sasl.kerberos.principal.to.local.rules`.

    alice/host@EXAMPLE.ORG           primary / instance @ realm
    RULE:[1:$1@$0](.*@EXAMPLE\\.ORG)s/@.*//       for principals of one part; `$0` is the realm
    DEFAULT                          the primary, for principals of the default realm

The first rule that fits is used. A rule has the number of parts it is for, what to build of them, a pattern
that this must match, a substitution, and `/L` or `/U` for lower or upper case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_RULE = re.compile(
    r"RULE:\[(?P<parts>\d+):(?P<build>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?(?:/?(?P<case>[LU]))?"
)
_PRINCIPAL = re.compile(r"(?P<primary>[^/@]+)(?:/(?P<instance>[^/@]+))?(?:@(?P<realm>.+))?")


class KerberosRuleError(ValueError):
    """A rule cannot be read, or none fits a principal."""


class _Rule(NamedTuple):
    parts: int
    build: str
    match: re.Pattern[str] | None
    source: re.Pattern[str] | None
    target: str
    is_global: bool
    case: str


class KerberosNames:
    """The rules of one listener."""

    def __init__(self, rules: Iterable[str], default_realm: str) -> None:
        self._default_realm = default_realm
        self._rules = [None if rule.strip() == "DEFAULT" else _parse(rule.strip()) for rule in rules]

    def user_name(self, principal: str) -> str:
        """Return the user name, or raise KerberosRuleError."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            raise KerberosRuleError(f"{principal!r} is not a Kerberos principal")
        parts = [found["realm"] or "", found["primary"], *([found["instance"]] if found["instance"] else [])]
        if not parts[0]:
            return parts[1]
        for rule in self._rules:
            name = self._apply(rule, parts)
            if name:
                return name
        raise KerberosRuleError(f"no rule of sasl.kerberos.principal.to.local.rules fits {principal}")

    def _apply(self, rule: _Rule | None, parts: list[str]) -> str | None:
        if rule is None:
            return parts[1] if parts[0] == self._default_realm else None
        if len(parts) - 1 != rule.parts:
            return None
        built = re.sub(
            r"\$(\d)", lambda each: parts[int(each[1])] if int(each[1]) < len(parts) else "", rule.build
        )
        if rule.match is not None and not rule.match.fullmatch(built):
            return None
        if rule.source is not None:
            target = re.sub(r"\$(\d)", r"\\\1", rule.target)
            built = rule.source.sub(target, built, count=0 if rule.is_global else 1)
        if "@" in built or "/" in built:
            raise KerberosRuleError(f"a rule makes {built!r} of a principal, which is not a user name")
        return built.lower() if rule.case == "L" else built.upper() if rule.case == "U" else built


def _parse(text: str) -> _Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise KerberosRuleError(f"{text!r} is not DEFAULT or RULE:[n:string](pattern)s/from/to/")
    try:
        return _Rule(
            int(found["parts"]),
            found["build"],
            re.compile(found["match"]) if found["match"] else None,
            re.compile(found["from"]) if found["from"] else None,
            found["to"] or "",
            found["all"] is not None,
            found["case"] or "",
        )
    except re.error as error:
        raise KerberosRuleError(f"{text!r} has a pattern that cannot be read: {error}") from None
