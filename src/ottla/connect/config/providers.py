"""Config providers: `${provider:path:key}` in a config stands for a value outside of it.

    ${env::DB_PASSWORD}                     a variable of the worker
    ${file:/etc/secrets.properties:user}    a key of a properties file
    ${directory:/etc/secrets:password}      a file of a folder

Values are looked up where a task starts, so the configs topic and the REST API have the reference only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.common.config.properties import read_properties
from ottla.connect.errors import ConnectError

PATTERN = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}:]*)\}")
PATHS = "config.providers.{}.param.allowed.paths"
ENV_PATTERN = "config.providers.env.param.allowlist.pattern"


@dataclass(frozen=True)
class Providers:
    """The providers of a worker, and what they may read: its settings, by Kafka's names."""

    paths: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    """By provider; one that is not here may read all files."""
    variables: re.Pattern[str] | None = None

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Providers:
        """Return those of a worker's settings."""
        paths = {
            name: tuple(Path(each.strip()).resolve() for each in given.split(",") if each.strip())
            for name in ("file", "directory")
            if (given := settings.get(PATHS.format(name)))
        }
        pattern = settings.get(ENV_PATTERN)
        try:
            return cls(paths, None if pattern is None else re.compile(pattern))
        except re.error as error:
            raise ConnectError(f"{ENV_PATTERN}: {pattern!r} is no regular expression: {error}") from None

    def value(self, provider: str, path: str, key: str) -> str:
        """Return a value; raise ConnectError if there is none, or if it may not be read."""
        read = {"env": self._env, "file": self._file, "directory": self._directory}[provider]
        return read(path, key)

    def _check_path(self, provider: str, path: Path) -> None:
        allowed = self.paths.get(provider)
        if allowed is not None and not any(path.is_relative_to(each) for each in allowed):
            raise ConnectError(f"config provider {provider}: {path} is not in {PATHS.format(provider)}")

    def _env(self, path: str, key: str) -> str:
        if self.variables is not None and not self.variables.fullmatch(key):
            raise ConnectError(f"config provider env: {key} does not match {ENV_PATTERN}")
        if key not in os.environ:
            raise ConnectError(f"config provider env: the worker has no variable {key}")
        return os.environ[key]

    def _file(self, path: str, key: str) -> str:
        self._check_path("file", Path(path).resolve())
        try:
            values = read_properties(Path(path))
        except (OSError, ValueError) as error:
            raise ConnectError(f"config provider file: {path}: {error}") from None
        if key not in values:
            raise ConnectError(f"config provider file: {path} has no key {key}")
        return values[key]

    def _directory(self, path: str, key: str) -> str:
        folder = Path(path).resolve()
        target = (folder / key).resolve()
        if target.parent != folder:
            raise ConnectError(f"config provider directory: {key} is not a file of {path}")
        self._check_path("directory", target)
        try:
            return target.read_text()
        except OSError as error:
            raise ConnectError(f"config provider directory: {target}: {error.strerror}") from None


NAMES = ("env", "file", "directory")
ANYTHING = Providers()


def has_reference(text: str) -> bool:
    """Return whether a value refers to a provider."""
    return any(match.group(1) in NAMES for match in PATTERN.finditer(text))


def resolve(config: Mapping[str, str], providers: Providers = ANYTHING) -> dict[str, str]:
    """Return a config with the values of its references; raise ConnectError if one has none."""
    return {key: resolve_text(value, providers) for key, value in config.items()}


def resolve_text(text: str, providers: Providers = ANYTHING) -> str:
    """Return a text with the values of its references; those of unknown providers stay."""

    def value(match: re.Match[str]) -> str:
        if match.group(1) not in NAMES:
            return match.group(0)
        return providers.value(match.group(1), match.group(2) or "", match.group(3))

    return PATTERN.sub(value, text) if isinstance(text, str) and "${" in text else text


MIN_SECRET = 4
"""Shorter values are no secrets, and would be found in any text."""
_PIECES = re.compile(r"[\s,;/:@?&=\"']+")


def without_values(text: str, config: Mapping[str, str | None], providers: Providers = ANYTHING) -> str:
    """Return a text for answers and logs, in which the values of a config's references are references again.

    Also their pieces: an error may name the host of an address only. What the config has in plain text is
    not looked for.
    """
    given = [each for each in config.values() if isinstance(each, str)]
    plain = {piece for each in given if not has_reference(each) for piece in (each, *_PIECES.split(each))}
    found: dict[str, str] = {}
    for match in {match.group(0): match for each in given for match in PATTERN.finditer(each)}.values():
        try:
            value = resolve_text(match.group(0), providers)
        except ConnectError:
            continue
        for piece in (value, value.strip(), *_PIECES.split(value)):
            if len(piece) >= MIN_SECRET and piece not in plain and value != match.group(0):
                found.setdefault(piece, match.group(0))
    if not found:
        return text
    longest_first = sorted(found, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda match: found[match.group(0)], text)
