"""What regular expressions are made of: the nodes of their trees, and the characters of names."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_letters, digits, punctuation, whitespace

OTHER = "\x7f"
"""Stands for a character that is not ASCII and not in the pattern."""
ALPHABET = frozenset(map(chr, range(128)))
"""All that names are made of: ASCII, of which topics have few, and transactional ids may have all."""

WORD = frozenset(ascii_letters + digits + "_")


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    chars: frozenset[str]


@dataclass(frozen=True, slots=True)
class Place:
    r"""An assertion: `^`, `$`, `b` or `B`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Several times; without an upper limit if `most` is None."""

    node: Node
    least: int
    most: int | None


Node = Chars | Place | Sequence | Choice | Repeat

_UPPER = frozenset(ascii_letters[26:])
_LOWER = frozenset(ascii_letters[:26])
_LETTERS, _DIGITS, _PUNCTUATION = _UPPER | _LOWER, frozenset(digits), frozenset(punctuation)
_GRAPH = _LETTERS | _DIGITS | _PUNCTUATION
_SYMBOLS = frozenset("$+<=>^`|~")
_CONTROLS = frozenset(map(chr, (*range(32), 127)))
_NONE: frozenset[str] = frozenset()

PERL = {"d": _DIGITS, "w": WORD, "s": frozenset("\t\n\f\r ")}
CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
CATEGORIES = {
    "L": _LETTERS,
    "Lu": _UPPER,
    "Ll": _LOWER,
    "Latin": _LETTERS,
    "N": _DIGITS,
    "Nd": _DIGITS,
    "P": _PUNCTUATION - _SYMBOLS,
    "Pc": frozenset("_"),
    "Pd": frozenset("-"),
    "Po": _PUNCTUATION - _SYMBOLS - frozenset("_-()[]{}"),
    "S": _SYMBOLS,
    "Z": frozenset(" "),
    "M": _NONE,
    "C": _CONTROLS,
    "Any": ALPHABET,
}
POSIX = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "ascii": ALPHABET,
    "blank": frozenset("\t "),
    "cntrl": _CONTROLS,
    "digit": _DIGITS,
    "graph": _GRAPH,
    "lower": _LOWER,
    "print": _GRAPH | {" "},
    "punct": _PUNCTUATION,
    "space": frozenset(whitespace),
    "upper": _UPPER,
    "word": WORD,
    "xdigit": frozenset("0123456789abcdefABCDEF"),
}
