"""Parses regular expressions in RE2's syntax into a tree, which regex.py compiles and runs.

Recursive descent over the pattern, one method per rule of the grammar; length, nesting and repetition counts
are limited. Names are ASCII as a rule: character sets hold ASCII, and OTHER stands for every character beyond
that the pattern does not name.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_letters, digits, punctuation, whitespace

from ottla.protocol.errors import InvalidRegularExpression

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


MAX_LENGTH = 10_000
MAX_DEPTH = 100
MAX_REPEAT = 1000
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def parse(pattern: str) -> Node:
    """Return the tree of a pattern; raise InvalidRegularExpression if it is none."""
    if len(pattern) > MAX_LENGTH:
        raise InvalidRegularExpression(f"the pattern has more than {MAX_LENGTH} characters")
    parser = _Parser(pattern)
    node = parser.choice(ignores_case=False, depth=0)
    if not parser.at_end:
        raise parser.error("unexpected )")
    return node


class _Parser:
    """A position in a pattern, and a method for each rule of its grammar."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    @property
    def at_end(self) -> bool:
        """Return whether all has been read."""
        return self._at == len(self._pattern)

    def error(self, why: str) -> InvalidRegularExpression:
        """Return what to raise about this place."""
        return InvalidRegularExpression(f"{self._pattern!r}, position {self._at}: {why}")

    def choice(self, ignores_case: bool, depth: int) -> Node:
        """Read sequences separated by `|`, up to the end or a closing parenthesis."""
        if depth > MAX_DEPTH:
            raise self.error("nested too deeply")
        options: list[Node] = []
        parts: list[Node] = []
        while not self.at_end and not self._sees(")"):
            if self._takes("|"):
                options.append(Sequence(tuple(parts)))
                parts = []
            elif (flags := self._flags_for_the_rest()) is not None:
                ignores_case = _apply(flags, ignores_case)
            else:
                parts.append(self._repeated(self._atom(ignores_case, depth)))
        options.append(Sequence(tuple(parts)))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    # Pieces

    def _sees(self, text: str) -> bool:
        return self._pattern.startswith(text, self._at)

    def _takes(self, text: str) -> bool:
        if not self._sees(text):
            return False
        self._at += len(text)
        return True

    def _next(self) -> str:
        if self.at_end:
            raise self.error("the pattern ends too early")
        char = self._pattern[self._at]
        self._at += 1
        return char

    def _until(self, end: str) -> str:
        stop = self._pattern.find(end, self._at)
        if stop < 0:
            raise self.error(f"{end} is missing")
        text, self._at = self._pattern[self._at : stop], stop + len(end)
        return text

    # Repetition

    def _repeated(self, node: Node) -> Node:
        counts = self._quantifier()
        if counts is None:
            return node
        self._takes("?")  # lazy or not, the same names match
        if self._quantifier() is not None:
            raise self.error("one repetition upon another")
        least, most = counts
        return Repeat(node, least, most)

    def _quantifier(self) -> tuple[int, int | None] | None:
        if self.at_end:
            return None
        char = self._pattern[self._at]
        if char in _QUANTIFIERS:
            self._at += 1
            return _QUANTIFIERS[char]
        return self._counts() if char == "{" else None

    def _counts(self) -> tuple[int, int | None] | None:
        """Read {n}, {n,} or {n,m}; anything else in braces is literal."""
        stop = self._pattern.find("}", self._at)
        low, comma, high = self._pattern[self._at + 1 : max(stop, 0)].partition(",")
        if stop < 0 or not _is_number(low) or not (high == "" or _is_number(high)):
            return None
        self._at = stop + 1
        least = int(low)
        most = None if comma and not high else int(high or low)
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self.error("bad repetition counts")
        return least, most

    # Atoms

    def _atom(self, ignores_case: bool, depth: int) -> Node:
        char = self._next()
        match char:
            case "(":
                return self._group(ignores_case, depth)
            case "[":
                return Chars(_folded(self._set(), ignores_case))
            case ".":
                return Chars(ALPHABET)
            case "^" | "$":
                return Place(char)
            case "\\":
                return self._escaped(ignores_case)
            case "*" | "+" | "?":
                raise self.error("nothing to repeat")
        return _literal(char, ignores_case)

    def _group(self, ignores_case: bool, depth: int) -> Node:
        if self._takes("?"):
            if self._takes("P<") or (self._sees("<") and not self._sees("<=") and not self._sees("<!")):
                self._takes("<")
                if not self._until(">").isidentifier():
                    raise self.error("a group needs a name")
            else:
                ignores_case = _apply(self._read_flags(":"), ignores_case)
        node = self.choice(ignores_case, depth + 1)
        if not self._takes(")"):
            raise self.error(") is missing")
        return node

    def _flags_for_the_rest(self) -> str | None:
        """Read `(?flags)`, which hold up to the end of the group; leave everything else unread."""
        start = self._at
        if self._takes("(?") and not self._sees("P") and not self._sees("<"):
            stop = self._pattern.find(")", self._at)
            flags = self._pattern[self._at : max(stop, self._at)]
            if flags and ":" not in flags:
                return self._read_flags(")")
        self._at = start
        return None

    def _read_flags(self, end: str) -> str:
        flags = self._until(end)
        if flags.strip("imsU-") or flags.count("-") > 1 or flags.endswith("-"):
            raise self.error(f"(?{flags} is not supported")
        return flags

    def _escaped(self, ignores_case: bool) -> Node:
        char = self._next()
        if char in "Az":
            return Place("^" if char == "A" else "$")
        if char in "bB":
            return Place(char)
        if char == "Q":
            stop = self._pattern.find("\\E", self._at)
            text = self._pattern[self._at :] if stop < 0 else self._pattern[self._at : stop]
            self._at = len(self._pattern) if stop < 0 else stop + 2
            return Sequence(tuple(_literal(each, ignores_case) for each in text))
        return Chars(_folded(self._escape(char), ignores_case))

    # Sets of characters

    def _set(self) -> frozenset[str]:
        """Read the rest of a bracket expression."""
        is_negated = self._takes("^")
        chars: set[str] = set()
        is_first = True
        while is_first or not self._sees("]"):
            is_first = False
            chars |= self._set_item()
        self._at += 1
        return ALPHABET - chars if is_negated else frozenset(chars) & ALPHABET

    def _set_item(self) -> frozenset[str]:
        if self._takes("[:"):
            return self._named(self._until(":]"))
        low = self._set_char()
        if not self._sees("-") or self._sees("-]"):
            return low
        self._at += 1
        high = self._set_char()
        if len(low) != 1 or len(high) != 1:
            raise self.error("a range needs a character on both sides")
        first, last = min(low), min(high)
        if first > last:
            raise self.error(f"bad range {first}-{last}")
        return frozenset(char for char in ALPHABET if first <= char <= last)

    def _set_char(self) -> frozenset[str]:
        char = self._next()
        return self._escape(self._next()) if char == "\\" else frozenset(char)

    def _named(self, name: str) -> frozenset[str]:
        is_negated, name = name.startswith("^"), name.removeprefix("^")
        if name not in POSIX:
            raise self.error(f"[:{name}:] is not a class of characters")
        return ALPHABET - POSIX[name] if is_negated else POSIX[name]

    def _escape(self, char: str) -> frozenset[str]:
        """Return the characters that an escape sequence stands for."""
        if char.lower() in PERL:
            chars = PERL[char.lower()]
            return ALPHABET - chars if char.isupper() else chars
        if char in "pP":
            name = self._until("}") if self._takes("{") else self._next()
            is_negated = (char == "P") != name.startswith("^")
            chars = self._category(name.removeprefix("^"))
            return ALPHABET - chars if is_negated else chars
        if char == "x":
            return frozenset(self._hexadecimal())
        if char in CONTROLS:
            return frozenset(CONTROLS[char])
        if char == "0":
            return frozenset("\0")
        if char.isalnum():
            raise self.error(f"\\{char} is not supported")
        return frozenset(char)

    def _category(self, name: str) -> frozenset[str]:
        if name not in CATEGORIES:
            raise self.error(f"\\p{{{name}}} is not supported")
        return CATEGORIES[name]

    def _hexadecimal(self) -> str:
        text = self._until("}") if self._takes("{") else self._next() + self._next()
        try:
            return chr(int(text, 16))
        except (ValueError, OverflowError):
            raise self.error(f"\\x{text} is not a character") from None


def _literal(char: str, ignores_case: bool) -> Chars:
    return Chars(_folded(frozenset(char), ignores_case))


def _folded(chars: frozenset[str], ignores_case: bool) -> frozenset[str]:
    if not ignores_case:
        return chars
    return chars | {char.lower() for char in chars} | {char.upper() for char in chars}


def _apply(flags: str, ignores_case: bool) -> bool:
    on, _, off = flags.partition("-")
    return (ignores_case or "i" in on) and "i" not in off


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
