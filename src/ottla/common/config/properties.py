r"""Java's `.properties` files, which Kafka's configuration is written in.

One `key=value` per line; `:` or blanks may stand for `=`. Blank lines and lines that begin with `#` or
`!` say nothing. A backslash at the end of a line continues it on the next, whose indentation is
dropped; elsewhere it escapes (`\t \n \r \f \uXXXX`, or the next character itself). Of a key that is
set twice, the last value counts, as in Java. Files are UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ottla.common.config.declaration import ConfigError

_BLANKS = " \t\f"
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.?)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """Return the settings in the file at `path`, or raise ConfigError that names the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            str(path), f"is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
        ) from error
    return parse_properties(text, str(path))


def parse_properties(text: str, source: str = "properties") -> dict[str, str]:
    """Return the settings in `text`, or raise ConfigError that names `source` and the line."""
    settings: dict[str, str] = {}
    for number, line in _logical_lines(text):
        where = f"{source}, line {number}"
        key = _KEY.match(line)
        assert key is not None  # the pattern also matches nothing
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        name = _unescape(key.group(), where)
        if not name:
            raise ConfigError(where, f"{line!r} has no key; write key=value")
        settings[name] = _unescape(line[separator.end() :], where)
    return settings


def as_properties(settings: Mapping[str, str]) -> str:
    """Return a file that reads as these settings."""
    return "".join(f"{_escape(key)}={_escape(value)}\n" for key, value in settings.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines that say something, joined where they continue, with the number of their first."""
    first, parts = 0, list[str]()
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(_BLANKS)
        if not parts:
            if not line or line[0] in "#!":
                continue
            first = number
        if _continues(line):
            parts.append(line[:-1])
            continue
        yield first, "".join((*parts, line))
        parts.clear()
    if parts:
        yield first, "".join(parts)


def _continues(line: str) -> bool:
    """Return whether `line` ends with a backslash that is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _escape(text: str) -> str:
    letters = {char: letter for letter, char in _LETTERS.items()}
    return re.sub(r"[\\=:#! \t\n\r\f]", lambda found: "\\" + letters.get(found[0], found[0]), text)


def _unescape(text: str, where: str) -> str:
    def replace(escape: re.Match[str]) -> str:
        escaped = escape.group(1)
        if escaped == "u":
            raise ConfigError(where, r"\u needs four hexadecimal digits")
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _LETTERS.get(escaped, escaped)

    return _ESCAPE.sub(replace, text)
