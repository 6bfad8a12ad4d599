"""The user name in a client's certificate: its distinguished name, through Kafka's mapping rules.

    CN=alice,OU=orders,O=Example,C=CZ            RFC 2253: the last part of the certificate first
    RULE:^CN=([^,]+),.*$/$1/L,DEFAULT            the common name in lower case, or the whole name

A rule whose pattern matches the whole name replaces it; `$1` is a group, `L` and `U` change the case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

DEFAULT = "DEFAULT"

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_OIDS = {"emailAddress": ("1.2.840.113549.1.9.1", 0x16), "serialNumber": ("2.5.4.5", 0x13)}
"""Attributes without a keyword in RFC 2253: their ids, and the ASN.1 type of their values."""

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_GROUP = re.compile(r"\\(.)|\$(\d)")

Subject = Iterable[Iterable[tuple[str, str]]]
"""As in Python's `getpeercert()`: the parts of a name, each of attributes."""


class RuleError(ValueError):
    """The rules cannot be read."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None: the whole name
    replacement: str = ""
    case: str = ""


def distinguished_name(subject: Subject) -> str:
    """Return the name as Java writes it."""
    parts = ["+".join(_attribute(name, value) for name, value in each) for each in subject]
    return ",".join(reversed(parts))


class PrincipalMapper:
    """The rules of `ssl.principal.mapping.rules`."""

    def __init__(self, rules: str) -> None:
        self._rules = _parse(rules)

    def user_name(self, distinguished: str) -> str | None:
        """Return the user name; None if no rule matches."""
        for pattern, replacement, case in self._rules:
            if pattern is None:
                return distinguished
            if (match := pattern.fullmatch(distinguished)) is not None:
                name = _expand(replacement, match)
                return name.lower() if case == "L" else name.upper() if case == "U" else name
        return None


def _parse(text: str) -> tuple[_Rule, ...]:
    rules = []
    position = 0
    while position < len(text.rstrip()):
        match = _RULE.match(text, position)
        if match is None:
            raise RuleError(f"{text[position:]!r} is not RULE:pattern/replacement/[LU] or DEFAULT")
        try:
            rules.append(
                _Rule(None)
                if match[1]
                else _Rule(re.compile(match[2].replace(r"\/", "/")), match[3], match[4])
            )
        except re.error as error:
            raise RuleError(f"{match[2]!r} is not a regular expression: {error}") from None
        position = match.end()
    return tuple(rules) or (_Rule(None),)


def _expand(replacement: str, match: re.Match[str]) -> str:
    def group(reference: re.Match[str]) -> str:
        return reference[1] if reference[1] is not None else (match[int(reference[2])] or "")

    try:
        return _GROUP.sub(group, replacement)
    except IndexError:
        return match.string


def _attribute(name: str, value: str) -> str:
    if name in _OIDS:
        oid, kind = _OIDS[name]
        data = value.encode()
        if len(data) < 128:
            return f"{oid}=#{kind:02x}{len(data):02x}{data.hex()}"
    return f"{_SHORT.get(name, name)}={_escape(value)}"


def _escape(value: str) -> str:
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if escaped[:1] in ("#", " "):
        escaped = "\\" + escaped
    if escaped.endswith(" ") and len(value) > 1:
        escaped = escaped[:-1] + "\\ "
    return escaped
