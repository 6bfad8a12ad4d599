"""Leave secrets out of text: by the names of settings, by their look, and by their values.

The values of settings that are known to be secret, of the profile, `-X` and configuration files, are removed
wherever they occur, whatever stands before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.cli.support.profiles import is_secret

REDACTED = "[redacted]"
SHORTEST_VALUE = 4
"""Shorter ones would make holes in all of the text; they are removed by their names."""

_NAMES = r"password|passwd|secret|token|credential|api[._-]?key|jaas|private[._-]?key|keystore\.key|scram"
_SETTING = re.compile(
    rf"""(?ix) ( ["']? [\w.\-]* (?:{_NAMES}) [\w.\-]* ["']? \s* [=:] \s* )
    ( "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | \[ [^\]\n]* \] | [^\s,;&"']+ )"""
)
_JAAS = re.compile(r"(?i)(\bLoginModule\s+\w+)[^;\n]*;?")
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_LOGIN = re.compile(r"(?i)\b(basic|bearer)\s+[A-Za-z0-9+/=._~\-]{6,}")
_USER = re.compile(r"(?i)(\b[a-z][a-z0-9+.\-]*://[^\s/:@]+):[^\s/@]+@")
_PROPERTY = re.compile(r"^(\s*)([^#!=:\s][^=:\s]*)(\s*[=:]\s*|\s+)(.*)$")

_QUOTED = re.compile(r"""(?i)(?:password|secret|token|user_\w+)\s*=\s*["']([^"']+)""")
_ASSIGNED = re.compile(r"""(?i)(?:password|secret|token)\s*=\s*([^\s,;"'\]]+)""")


class Redactor:
    """Removes secrets from text; `removed` counts what it has removed."""

    def __init__(self) -> None:
        self.removed = 0
        self._values: set[str] = set()

    def learn(self, settings: Mapping[str, str]) -> None:
        """Take note of the secret values of some settings."""
        for key, value in settings.items():
            if is_secret_setting(key):
                self._values |= {each for each in _parts(value) if len(each) >= SHORTEST_VALUE}

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        for value in sorted(self._values, key=len, reverse=True):
            self.removed += text.count(value)
            text = text.replace(value, REDACTED)
        for pattern, instead in (
            (_KEY, REDACTED),
            (_JAAS, rf"\1 {REDACTED};"),
            (_USER, rf"\1:{REDACTED}@"),
            (_LOGIN, rf"\1 {REDACTED}"),
            (_SETTING, rf"\1{REDACTED}"),
        ):
            text, count = pattern.subn(instead, text)
            self.removed += count
        return text

    def document(self, value: Any) -> Any:
        """Return a JSON document without secrets: texts are searched, and those of secret names removed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.document(each) for each in value]
        if not isinstance(value, dict):
            return value
        found = {}
        for key, each in value.items():
            is_hidden = isinstance(each, str) and is_secret_setting(str(key))
            self.removed += is_hidden
            found[str(key)] = REDACTED if is_hidden else self.document(each)
        return found

    def properties(self, text: str) -> str:
        """Return a .properties file without secrets: their keys stay. Values over several lines are one."""
        joined = re.sub(r"\\\r?\n[ \t]*", "", text)
        self.learn(dict(_pairs(joined)))
        lines = []
        for line in joined.splitlines():
            found = _PROPERTY.match(line)
            if found is not None and is_secret_setting(found[2]) and found[4]:
                self.removed += 1
                line = f"{found[1]}{found[2]}={REDACTED}"
            lines.append(line)
        return self.text("\n".join(lines) + "\n")


def is_secret_setting(key: str) -> bool:
    """Return whether the value of a client's or a broker's setting must not be shown."""
    lower = key.lower()
    return is_secret(lower) or re.search(_NAMES, lower) is not None


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        if (found := _PROPERTY.match(line)) is not None:
            yield found[2], found[4].strip()


def _parts(value: str) -> list[str]:
    """Return a secret, and the passwords in it: those of a JAAS line, or of a list of SCRAM users."""
    return [value, *_QUOTED.findall(value), *_ASSIGNED.findall(value)]
