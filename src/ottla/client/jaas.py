"""Parse Java's login configuration, as in `sasl.jaas.config`.

org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_MODULE = re.compile(
    r"\s*(?P<name>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<rest>.*);\s*", re.DOTALL
)
_PAIR = re.compile(
    r"""\s*(?P<key>[\w.-]+)\s*=\s*"""
    r"""(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<bare>[^\s;]+))"""
)
_ESCAPE = re.compile(r"\\(.)")
PLAIN, SCRAM = "PlainLoginModule", "ScramLoginModule"


@dataclass(frozen=True)
class Login:
    """A login module and its options."""

    module: str
    """The name of its class, without the package."""
    username: str
    password: str = field(repr=False)
    is_token: bool = False
    """Whether the user is a delegation token (`tokenauth="true"`)."""


def parse_jaas(text: str) -> Login:
    """Return the login of a configuration; raise ValueError if it is not one with a name and a password."""
    found = _MODULE.fullmatch(text)
    if found is None:
        raise ValueError('must look like `...PlainLoginModule required username="..." password="...";`')
    module = found["name"].rpartition(".")[2]
    if module not in (PLAIN, SCRAM):
        raise ValueError(f"the login module {module} is not supported: {PLAIN} and {SCRAM} are")
    options, rest = {}, found["rest"]
    position = 0
    while rest[position:].strip():
        pair = _PAIR.match(rest, position)
        if pair is None:
            raise ValueError('its options must look like name="value"')
        value = pair["quoted"]
        value = _ESCAPE.sub(r"\1", value) if value is not None else pair["single"] or pair["bare"] or ""
        options[pair["key"]] = value
        position = pair.end()
    if "username" not in options or "password" not in options:
        raise ValueError("names no username and password")
    is_token = options.get("tokenauth", "").lower() == "true"
    return Login(module, options["username"], options["password"], is_token)
