"""Scan SQL text: tokens, statements, and the relations that a query reads. Pure code.

Spark does the parsing; this module only finds the ends of statements and the names after FROM and JOIN, so
that the datasets of the pipeline exist before Spark parses the query.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""
    (?P<space>\s+ | --[^\n]* | /\*.*?\*/)
  | (?P<string>'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>\d+(?:\.\d+)?)
  | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)

RELATION_STARTS = {"FROM", "JOIN"}


@dataclass(frozen=True)
class Token:
    """A word, a literal or a mark, and its position in the text."""

    kind: str
    text: str
    start: int

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of these keywords."""
        return self.kind == "word" and self.text.upper() in words

    @property
    def name(self) -> str:
        """The identifier, without its backticks."""
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text

    @property
    def literal(self) -> str:
        """The value of a string or number."""
        return self.text[1:-1].replace("''", "'").replace('""', '"') if self.kind == "string" else self.text


@dataclass(frozen=True)
class Statement:
    """One statement of a SQL file."""

    text: str
    line: int


@dataclass(frozen=True)
class Relation:
    """A name that a query reads, as a stream (`FROM STREAM x`) or as a batch."""

    name: str
    is_stream: bool


def tokens(text: str) -> list[Token]:
    """Return the tokens of `text` without white space and comments."""
    return [
        Token(match.lastgroup or "mark", match.group(), match.start())
        for match in TOKEN.finditer(text)
        if match.lastgroup != "space"
    ]


def statements(text: str) -> list[Statement]:
    """Split a file at its semicolons (except those in strings and comments)."""
    found = []
    first: Token | None = None
    for token in [*tokens(text), Token("mark", ";", len(text))]:
        if token.text == ";" and token.kind == "mark":
            if first is not None:
                line = text.count("\n", 0, first.start) + 1
                found.append(Statement(text[first.start : token.start].rstrip(), line))
            first = None
        elif first is None:
            first = token
    return found


def relations(query: str) -> list[Relation]:
    """Return the tables and views that a query reads, without those of its own WITH clause."""
    words = tokens(query)
    own = _names_of_with(words)
    found: dict[Relation, None] = {}
    index = 0
    while index < len(words):
        if words[index].is_word(*RELATION_STARTS):
            index = _read_list(words, index + 1, found)
        else:
            index += 1
    return [relation for relation in found if relation.name.lower() not in own]


def _read_list(words: list[Token], index: int, found: dict[Relation, None]) -> int:
    """Parse `a [AS x], STREAM b, ...`; return the next index (sub-queries are found on the way)."""
    while index < len(words):
        is_stream = words[index].is_word("STREAM") and not _is_mark(words, index + 1, ".")
        index += is_stream
        index += is_stream and _is_mark(words, index, "(")
        if index >= len(words) or words[index].kind not in ("word", "quoted"):
            return index
        name, index = read_name(words, index)
        if not _is_mark(words, index, "("):  # a function, such as range(10), is not a relation
            found[Relation(name, is_stream)] = None
        index += _is_mark(words, index, ")") and is_stream
        index += index < len(words) and words[index].is_word("AS")
        if (
            index + 1 < len(words)
            and words[index].kind in ("word", "quoted")
            and _is_mark(words, index + 1, ",")
        ):
            index += 1  # the alias
        if not _is_mark(words, index, ","):
            return index
        index += 1
    return index


def read_name(words: list[Token], index: int) -> tuple[str, int]:
    """Parse `a`, `a.b` or `` `a b`.c``; return it and the index after it."""
    parts = [words[index].name]
    index += 1
    while _is_mark(words, index, ".") and index + 1 < len(words):
        parts.append(words[index + 1].name)
        index += 2
    return ".".join(parts), index


def _names_of_with(words: list[Token]) -> set[str]:
    return {
        before.name.lower()
        for before, middle, after in zip(words, words[1:], words[2:], strict=False)
        if before.kind in ("word", "quoted") and middle.is_word("AS") and after.text == "("
    }


def _is_mark(words: list[Token], index: int, mark: str) -> bool:
    return index < len(words) and words[index].kind == "mark" and words[index].text == mark
