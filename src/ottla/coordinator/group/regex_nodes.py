"""What regular expressions are made of: the nodes of their trees, and the characters of topic names."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_letters, digits

ALPHABET = frozenset(ascii_letters + digits + "._-")
"""Whatever else a pattern names, no topic has it."""

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
_LETTERS, _DIGITS, _PUNCTUATION = _UPPER | _LOWER, frozenset(digits), frozenset("._-")
_NONE: frozenset[str] = frozenset()

PERL = {"d": _DIGITS, "w": WORD, "s": _NONE}
CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
CATEGORIES = {
    "L": _LETTERS,
    "Lu": _UPPER,
    "Ll": _LOWER,
    "Latin": _LETTERS,
    "N": _DIGITS,
    "Nd": _DIGITS,
    "P": _PUNCTUATION,
    "Pc": frozenset("_"),
    "Pd": frozenset("-"),
    "Po": frozenset("."),
    "S": _NONE,
    "Z": _NONE,
    "M": _NONE,
    "C": _NONE,
    "Any": ALPHABET,
}
POSIX = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "ascii": ALPHABET,
    "blank": _NONE,
    "cntrl": _NONE,
    "digit": _DIGITS,
    "graph": ALPHABET,
    "lower": _LOWER,
    "print": ALPHABET,
    "punct": _PUNCTUATION,
    "space": _NONE,
    "upper": _UPPER,
    "word": WORD,
    "xdigit": frozenset("0123456789abcdefABCDEF"),
}
