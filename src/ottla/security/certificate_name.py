"""The user name in a client's certificate: its distinguished name, through Kafka's mapping rules.

    CN=alice,OU=orders,O=Example,C=CZ            RFC 2253: the last part of the certificate first
    RULE:^CN=([^,]+),.*$/$1/L,DEFAULT            the common name in lower case, or the whole name

A rule whose pattern matches the whole name replaces it; `$1` is a group, `L` and `U` change the case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

DEFAULT = "DEFAULT"

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes with a keyword in RFC 2253. Others are written as their id and the DER of their value."""
_STRINGS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""The kinds of strings in DER that are written as text, all of them read as UTF-8."""
_SEQUENCE = 0x30

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_GROUP = re.compile(r"\\(.)|\$(\d)")


class RuleError(ValueError):
    """The rules cannot be read."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None: the whole name
    replacement: str = ""
    case: str = ""


def distinguished_name(certificate: bytes) -> str:
    """Return the name in a certificate (DER) as Java writes it; empty if there is none."""
    (fields,) = _elements(certificate)
    fields, *_ = _elements(fields.content)
    names = [each for each in _elements(fields.content) if each.tag == _SEQUENCE]
    subject = names[3]  # after the algorithm, the issuer and the validity
    parts = ["+".join(map(_attribute, _elements(part.content))) for part in _elements(subject.content)]
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


class _Element(NamedTuple):
    """One element of DER."""

    tag: int
    content: bytes
    encoded: bytes


def _elements(data: bytes) -> Iterator[_Element]:
    at = 0
    while at < len(data):
        start, tag, size, at = at, data[at], data[at + 1], at + 2
        if size >= 128:
            digits = size - 128
            size, at = int.from_bytes(data[at : at + digits], "big"), at + digits
        yield _Element(tag, data[at : at + size], data[start : at + size])
        at += size


def _attribute(attribute: _Element) -> str:
    oid, value = _elements(attribute.content)
    number = _dotted(oid.content)
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or number}=#{value.encoded.hex()}"
    return f"{keyword}={_escape(value.content.decode(errors='replace'))}"


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escape(value: str) -> str:
    escaped = re.sub(r'([,=+<>#;"\\])', r"\\\1", value).replace("\0", "\\00")
    blanks = r"\A[ \r]+|[ \r]+\Z"
    return re.sub(blanks, lambda found: "".join("\\" + each for each in found[0]), escaped)
