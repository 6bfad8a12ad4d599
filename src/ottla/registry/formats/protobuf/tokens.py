"""Splits .proto text into words, strings and symbols, without the comments."""

from __future__ import annotations

import re

from ottla.registry.formats.limits import InvalidSchema

_TOKEN = re.compile(
    r"""(?P<space>[\s]+|//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>[A-Za-z0-9_.+-]+)
    |(?P<symbol>[{}\[\]()<>=;,:/])""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL
)
_CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Tokens:
    """Reads tokens one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0
        self._kind = ""
        self._token = ""
        self._start = 0
        self._advance()

    def _advance(self) -> None:
        while True:
            self._start = self._end
            if self._end >= len(self._text):
                self._kind = self._token = ""
                return
            match = _TOKEN.match(self._text, self._end)
            if match is None:
                raise self.error(f"unexpected {self._text[self._end]!r}")
            self._end = match.end()
            if match.lastgroup != "space":
                self._kind, self._token = str(match.lastgroup), match.group()
                return

    def error(self, problem: str) -> InvalidSchema:
        """Return an error that names the line and the column."""
        line = self._text.count("\n", 0, self._start) + 1
        column = self._start - self._text.rfind("\n", 0, self._start)
        return InvalidSchema(f"Could not parse Protobuf - Syntax error in {line}:{column}: {problem}")

    @property
    def at_end(self) -> bool:
        """Return whether everything was read."""
        return not self._kind

    def peek(self) -> str:
        """Return the next token as it is written; "" at the end."""
        return self._token

    def at_string(self) -> bool:
        """Return whether a quoted string follows."""
        return self._kind == "string"

    def accept(self, token: str) -> bool:
        """Skip a symbol or a word, if it is what follows."""
        if self._token != token or self._kind == "string":
            return False
        self._advance()
        return True

    def expect(self, token: str) -> None:
        """Skip a symbol or a word that must follow."""
        if not self.accept(token):
            raise self.error(f"expected '{token}', found {self._found()}")

    def _found(self) -> str:
        return f"'{self._token[:40]}'" if self._token else "the end"

    def word(self) -> str:
        """Read a word: a name with dots, or a number."""
        if self._kind != "word":
            raise self.error(f"expected a word, found {self._found()}")
        word = self._token
        self._advance()
        return word

    def integer(self) -> int:
        """Read an integer, decimal, octal or hexadecimal."""
        word = self.word()
        try:
            if re.fullmatch(r"-?0[0-7]+", word):
                return int(word, 8)
            return int(word, 0) if re.match(r"-?0[xX]", word) else int(word, 10)
        except ValueError:
            raise self.error(f"expected an integer, found '{word[:40]}'") from None

    def string(self) -> str:
        """Read a string; strings that follow one another are one."""
        if self._kind != "string":
            raise self.error(f"expected a string, found {self._found()}")
        parts = []
        while self._kind == "string":
            parts.append(_ESCAPE.sub(_unescape, self._token[1:-1]))
            self._advance()
        return "".join(parts)


def _unescape(match: re.Match[str]) -> str:
    hexadecimal, octal, short, long, other = match.groups()
    if hexadecimal or short or long:
        number = int(hexadecimal or short or long, 16)
        return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
    if octal:
        return chr(int(octal, 8) & 0xFF)
    return _CONTROL.get(other, other)
