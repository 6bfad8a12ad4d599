"""Read JAAS lines, as in `sasl.jaas.config`:

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password="secret" user_alice="wonderland";

One line has one login module. Values may be quoted, also with single quotes; a backslash escapes the next
character within double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

USER_PREFIX = "user_"
FLAGS = ("required", "requisite", "sufficient", "optional")

_OPTION = re.compile(
    r'\s*([^\s=;"]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|\'([^\']*)\'|([^\s;"\'][^\s;"]*))', re.DOTALL
)
_HEAD = re.compile(r"\s*([\w.$]+)\s+(\w+)")
_END = re.compile(r"\s*;\s*")


class JaasError(ValueError):
    """The line is not JAAS; the message never has the line itself, which holds secrets."""


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """A login module with its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def users(self) -> dict[str, str]:
        """The passwords by user, of the options `user_NAME`."""
        return {
            name.removeprefix(USER_PREFIX): value
            for name, value in self.options.items()
            if name.startswith(USER_PREFIX)
        }


def parse_jaas(text: str) -> JaasLogin:
    """Return the login module that `text` configures, or raise JaasError."""
    head = _HEAD.match(text)
    if head is None or head[2].lower() not in FLAGS:
        raise JaasError("must begin with the name of a login module and `required`")
    options: dict[str, str] = {}
    position = head.end()
    while (option := _OPTION.match(text, position)) is not None:
        name, quoted, single, bare = option.groups()
        if quoted is not None:
            options[name] = re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        else:
            options[name] = bare if single is None else single
        position = option.end()
    end = _END.match(text, position)
    if end is None:
        raise JaasError(
            f'has no key=value or ";" after the option number {len(options)}; is a quote missing?'
        )
    if end.end() != len(text):
        raise JaasError("has more than one login module; it may have one")
    return JaasLogin(head[1], options)
