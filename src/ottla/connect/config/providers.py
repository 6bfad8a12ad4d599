"""Config providers: `${provider:path:key}` in a config stands for a value outside of it.

    ${env::DB_PASSWORD}                     a variable of the worker
    ${file:/etc/secrets.properties:user}    a key of a properties file
    ${directory:/etc/secrets:password}      a file of a folder

Values are looked up where a task starts, so the configs topic and the REST API have the reference only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ottla.common.config.properties import read_properties
from ottla.connect.errors import ConnectError

PATTERN = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}:]*)\}")


def _env(path: str, key: str) -> str:
    if key not in os.environ:
        raise ConnectError(f"config provider env: the worker has no variable {key}")
    return os.environ[key]


def _file(path: str, key: str) -> str:
    try:
        values = read_properties(Path(path))
    except (OSError, ValueError) as error:
        raise ConnectError(f"config provider file: {path}: {error}") from None
    if key not in values:
        raise ConnectError(f"config provider file: {path} has no key {key}")
    return values[key]


def _directory(path: str, key: str) -> str:
    folder = Path(path).resolve()
    target = (folder / key).resolve()
    if target.parent != folder:
        raise ConnectError(f"config provider directory: {key} is not a file of {path}")
    try:
        return target.read_text()
    except OSError as error:
        raise ConnectError(f"config provider directory: {target}: {error.strerror}") from None


PROVIDERS: Mapping[str, Callable[[str, str], str]] = {"env": _env, "file": _file, "directory": _directory}


def has_reference(text: str) -> bool:
    """Tell whether a value refers to a provider."""
    return any(match.group(1) in PROVIDERS for match in PATTERN.finditer(text))


def resolve(config: Mapping[str, str]) -> dict[str, str]:
    """Return a config with the values of its references; raise ConnectError if one has none."""
    return {key: resolve_text(value) for key, value in config.items()}


def resolve_text(text: str) -> str:
    """Return a text with the values of its references; those of unknown providers stay."""

    def value(match: re.Match[str]) -> str:
        provider = PROVIDERS.get(match.group(1))
        return match.group(0) if provider is None else provider(match.group(2) or "", match.group(3))

    return PATTERN.sub(value, text) if isinstance(text, str) and "${" in text else text


MIN_SECRET = 4
"""Shorter values are no secrets, and would be found in any text."""
_PIECES = re.compile(r"[\s,;/:@?&=\"']+")


def without_values(text: str, config: Mapping[str, str | None]) -> str:
    """Return a text for answers and logs, in which the values of a config's references are references again.

    Also their pieces: an error may name the host of an address only. What the config has in plain text is
    not looked for.
    """
    given = [each for each in config.values() if isinstance(each, str)]
    plain = {piece for each in given if not has_reference(each) for piece in (each, *_PIECES.split(each))}
    found: dict[str, str] = {}
    for match in {match.group(0): match for each in given for match in PATTERN.finditer(each)}.values():
        try:
            value = resolve_text(match.group(0))
        except ConnectError:
            continue
        for piece in (value, value.strip(), *_PIECES.split(value)):
            if len(piece) >= MIN_SECRET and piece not in plain and value != match.group(0):
                found.setdefault(piece, match.group(0))
    if not found:
        return text
    longest_first = sorted(found, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda match: found[match.group(0)], text)
