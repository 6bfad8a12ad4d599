r"""Matches names against regular expressions in RE2's syntax, with a bound on the work.

Members of a consumer group may subscribe by a regular expression, and ListTransactions filters by one. The
broker evaluates what a client sends on its only event loop, so a backtracking engine is out of the question:
`(a*)*b` would block the broker. As in RE2, what needs backtracking (back references, lookaround) does not
exist. Decision 112 says why this is not google-re2: that bounds memory, but not work.

The tree of a pattern (regex_parser.py) is compiled into a program of four kinds of instructions:

    CHARS  set, next       one character of the set
    SPLIT  next, other     either way
    ASSERT kind, next      ^ $ \A \z \b \B: nothing, if the place is right
    MATCH                  the end

A repetition with counts is unrolled, so the size of the program, which is limited, bounds everything.
Matching walks a lazily built automaton: a state is the set of instructions that a name may have reached,
with the kind of the character before. What follows a state by a character is computed once and cached, so
that most of matching is one dictionary look-up per character. The uncached work is counted, and limited.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.group.regex_parser import (
    ALPHABET,
    OTHER,
    WORD,
    Chars,
    Choice,
    Node,
    Place,
    Repeat,
    Sequence,
    parse,
)
from ottla.protocol.errors import InvalidRegularExpression

MAX_INSTRUCTIONS = 5000
MAX_WORK = 400_000
"""Instructions looked at while making states, over all names; about a tenth of a second."""

_Instruction = tuple[frozenset[str] | str | None, tuple[int, ...]]
"""CHARS has a set, ASSERT the kind of a place, SPLIT and MATCH None; then where it leads to."""
_MATCH: _Instruction = (None, ())

_BEGIN, _WORD, _OTHER = "begin", "word", "other"
_END = ""
"""The character after the last one."""


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that a pattern matches as a whole; raise InvalidRegularExpression."""
    program = Program(parse(pattern))
    named = ALPHABET.union(pattern)
    return frozenset(name for name in names if program.matches(_known(name, named)))


def _known(name: str, named: frozenset[str]) -> str:
    """Return the name with one character for all those that the pattern does not distinguish."""
    return name if name.isascii() else "".join(char if char in named else OTHER for char in name)


class _State:
    """Places in the program, the kind of the character before them, and what is known of what follows."""

    __slots__ = ("before", "is_match", "moves", "places")

    def __init__(self, places: frozenset[int], before: str) -> None:
        self.places = places
        self.before = before
        self.moves: dict[str, _State] = {}
        self.is_match: bool | None = None


class Program:
    """A pattern, ready to be matched."""

    def __init__(self, node: Node) -> None:
        self._work = 0
        self._code: list[_Instruction] = [_MATCH]
        self._first = _State(frozenset((self._compile(node, 0),)), _BEGIN)
        self._states: dict[tuple[frozenset[int], str], _State] = {}

    def matches(self, name: str) -> bool:
        """Return whether the whole name matches."""
        state = self._first
        for char in name:
            state = state.moves.get(char) or self._move(state, char)
            if not state.places:
                return False
        if state.is_match is None:
            _, state.is_match = self._follow(state, _END)
        return state.is_match

    # The program is written from its end: what comes next is known by then.

    def _add(self, instruction: _Instruction) -> int:
        if len(self._code) == MAX_INSTRUCTIONS:
            raise InvalidRegularExpression("the pattern is too large")
        self._code.append(instruction)
        return len(self._code) - 1

    def _compile(self, node: Node, after: int) -> int:
        """Write a node in front of the instruction `after`; return where it begins."""
        match node:
            case Chars(chars):
                return self._add((chars, (after,)))
            case Place(kind):
                return self._add((kind, (after,)))
            case Sequence(parts):
                for part in reversed(parts):
                    after = self._compile(part, after)
                return after
            case Choice(options):
                return self._add((None, tuple(self._compile(each, after) for each in options)))
            case Repeat(repeated, least, most):
                return self._repeat(repeated, least, most, after)

    def _repeat(self, node: Node, least: int, most: int | None, after: int) -> int:
        begin = after
        if most is None:
            begin = self._add(_MATCH)  # its place is needed before what it leads to is written
            self._code[begin] = (None, (self._compile(node, begin), after))
        else:
            for _ in range(most - least):
                begin = self._add((None, (self._compile(node, begin), after)))
        for _ in range(least):
            self._spend(10)  # for an empty node, which adds no instruction however often it is repeated
            begin = self._compile(node, begin)
        return begin

    # States

    def _move(self, state: _State, char: str) -> _State:
        """Return the state after a character."""
        reached, _ = self._follow(state, char)
        key = (reached, _WORD if char in WORD else _OTHER)
        moved = self._states.get(key)
        if moved is None:
            moved = self._states[key] = _State(*key)
        state.moves[char] = moved
        return moved

    def _follow(self, state: _State, char: str) -> tuple[frozenset[int], bool]:
        """Return the places after a character, and whether the end of the program is in reach before it."""
        pending = list(state.places)
        seen = set(pending)
        reached: set[int] = set()
        is_match = False
        while pending:
            what, targets = self._code[pending.pop()]
            if isinstance(what, frozenset):
                if char in what:
                    reached.update(targets)
            elif not targets:
                is_match = True
            elif what is None or _is_at(what, state.before, char):
                pending.extend(target for target in targets if target not in seen)
                seen.update(targets)
        self._spend(len(seen) + 1)
        return frozenset(reached), is_match

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > MAX_WORK:
            raise InvalidRegularExpression("the pattern is too expensive")


def _is_at(place: str, before: str, char: str) -> bool:
    match place:
        case "^":
            return before == _BEGIN
        case "$":
            return char == _END
    is_boundary = (before == _WORD) != (char in WORD)
    return is_boundary if place == "b" else not is_boundary
