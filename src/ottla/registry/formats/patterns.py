"""Checks and applies the regular expressions of JSON Schemas.

Problem: clients match them with engines that backtrack. A pattern like `(a+)+$` takes such an engine minutes
for forty characters, so that one registered schema stops every consumer of a topic.

Solution: a pattern that is ambiguous within a loop (one text, exponentially many ways to match it) is
refused. The loop is found in the automaton of the pattern: a state that can reach itself by the same text in
two ways. We match with jsonschema-rs, which is linear, or bounded where a pattern looks around.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any

from ottla.registry.formats.json_text import Json
from ottla.registry.formats.limits import InvalidSchema

# Python's own parser of patterns has no type stubs: imported by name, so that no check depends on its cache.
op: Any = import_module("re._constants")
sre: Any = import_module("re._parser")

MAX_PATTERN_LENGTH = 10_000
MAX_STATES = 300
"""Patterns with more characters and classes than this are refused if a loop is within a loop."""
MAX_PATTERNS = 1_000
"""Most patterns in one schema."""
MAX_WORK = 500_000
"""Most steps of the search for ambiguous loops in all patterns of a schema."""
_MAX_COPIES = 3
"""A counted repeat behaves like this many copies, as far as ambiguity goes."""
_BACKTRACK_LIMIT = 10_000


@lru_cache(maxsize=1_000)
def _matcher(pattern: str) -> Any:
    import jsonschema_rs

    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT)
    return jsonschema_rs.Draft202012Validator({"type": "string", "pattern": pattern}, pattern_options=options)


def matches(pattern: str, text: str) -> bool:
    """Return whether the pattern occurs in the text; a pattern that cannot be understood occurs nowhere."""
    try:
        return bool(_matcher(pattern).is_valid(text))
    except (ValueError, OverflowError):
        return False


def check_patterns(schema: Json) -> None:
    """Refuse a schema that holds a pattern which is wrong or catastrophic."""
    waiting = [schema]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        if not isinstance(node, dict):
            continue
        pattern = node.get("pattern")
        if isinstance(pattern, str):
            seen.add(pattern)
        names = node.get("patternProperties")
        if isinstance(names, dict):
            seen.update(names)
        waiting.extend(node.values())
    if len(seen) > MAX_PATTERNS:
        raise InvalidSchema(f"it has more than {MAX_PATTERNS} patterns")
    work = _Work()
    for pattern in sorted(seen):
        check_pattern(pattern, work)


class _Work:
    """Counts the steps of an analysis; patterns that come after the last step are judged by their look."""

    def __init__(self) -> None:
        self.left = MAX_WORK

    def count(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _TooLarge


def check_pattern(pattern: str, work: _Work | None = None) -> None:
    """Refuse a pattern that is too long or takes exponential time."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise InvalidSchema(f"a pattern has more than {MAX_PATTERN_LENGTH} characters")
    try:
        tree = sre.parse(_as_python(pattern))
    except (re.error, OverflowError, RecursionError):
        return  # ECMAScript that Python does not know; our own matching is bounded
    if _is_catastrophic(tree, work or _Work()):
        shown = pattern if len(pattern) <= 100 else pattern[:97] + "..."
        raise InvalidSchema(f"the pattern '{shown}' takes exponential time to match")


def _as_python(pattern: str) -> str:
    """Rewrite what ECMAScript writes differently: named groups, and classes of Unicode properties."""
    pattern = re.sub(r"\(\?<(?![=!])", "(?P<", pattern)
    return re.sub(r"\\[pP]\{[^}]*\}", r"\\w", pattern)


class _Automaton:
    """The positions of a pattern (its characters and classes), and which may follow which, counted."""

    def __init__(self, work: _Work) -> None:
        self.work = work
        self.classes: list[frozenset[int]] = []
        self.follow: list[dict[int, int]] = []
        self.ambiguous = False  # two alternatives within a loop match nothing at all

    def position(self, characters: frozenset[int]) -> int:
        self.classes.append(characters)
        self.follow.append({})
        return len(self.classes) - 1

    def connect(self, last: set[int], first: set[int]) -> None:
        self.work.count(len(last) * len(first))
        for left in last:
            for right in first:
                self.follow[left][right] = self.follow[left].get(right, 0) + 1


_Part = tuple[bool, set[int], set[int]]  # may be empty, first positions, last positions
_SAMPLES = (*range(128), 0xE9, 0x4E2D, 0x1F600)


class _TooLarge(Exception):
    pass


def _is_catastrophic(tree: Any, work: _Work) -> bool:
    automaton = _Automaton(work)
    try:
        _sequence(automaton, tree, 0)
        return automaton.ambiguous or _has_ambiguous_loop(automaton)
    except _TooLarge:
        return _has_nested_loops(tree, 0)


def _sequence(automaton: _Automaton, items: Any, loops: int) -> _Part:
    empty, first, last = True, set[int](), set[int]()
    for code, value in items:
        if len(automaton.classes) > MAX_STATES:
            raise _TooLarge
        part = _item(automaton, code, value, loops)
        if part is None:
            continue
        part_empty, part_first, part_last = part
        automaton.connect(last, part_first)
        first = first | part_first if empty else first
        last = last | part_last if part_empty else part_last
        empty = empty and part_empty
    return empty, first, last


def _item(automaton: _Automaton, code: Any, value: Any, loops: int) -> _Part | None:
    if code in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY, op.CATEGORY):
        position = automaton.position(_characters(code, value))
        return False, {position}, {position}
    if code is op.SUBPATTERN:
        return _sequence(automaton, value[-1], loops)
    if code is op.BRANCH:
        parts = [_sequence(automaton, each, loops) for each in value[1]]
        if loops and sum(part[0] for part in parts) > 1:
            automaton.ambiguous = True
        return (
            any(part[0] for part in parts),
            set().union(*(part[1] for part in parts)),
            set().union(*(part[2] for part in parts)),
        )
    if code in (op.MAX_REPEAT, op.MIN_REPEAT):
        return _repeat(automaton, value, loops)
    return None  # anchors, look-around, back references: they do not add ways to match


def _repeat(automaton: _Automaton, value: Any, loops: int) -> _Part:
    least, most, body = value
    if most is not op.MAXREPEAT and most <= 1:
        empty, first, last = _sequence(automaton, body, loops)
        return empty or least == 0, first, last
    copies = 1 if most is op.MAXREPEAT else min(most, _MAX_COPIES)
    empty, first, last = _sequence(automaton, body, loops + 1)
    if most is op.MAXREPEAT or most > 10:  # ten rounds are not yet a catastrophe
        automaton.connect(last, first)
    elif copies > 1:
        for _ in range(copies - 1):
            _, more_first, more_last = _sequence(automaton, body, loops + 1)
            automaton.connect(last, more_first)
            last = last | more_last
    return empty or least == 0, first, last


def _characters(code: Any, value: Any) -> frozenset[int]:
    if code is op.ANY:
        return frozenset(_SAMPLES) - {10}
    if code is op.LITERAL:
        return frozenset({value})
    if code is op.NOT_LITERAL:
        return frozenset(_SAMPLES) - {value}
    if code is op.CATEGORY:
        return _category(value)
    characters: set[int] = set()
    negated = False
    for inner, argument in value:
        if inner is op.NEGATE:
            negated = True
        elif inner is op.LITERAL:
            characters.add(argument)
        elif inner is op.RANGE:
            low, high = argument
            characters.update(each for each in _SAMPLES if low <= each <= high)
            characters.update((low, high))
        elif inner is op.CATEGORY:
            characters |= _category(argument)
    return frozenset(_SAMPLES) - characters if negated else frozenset(characters)


def _category(category: Any) -> frozenset[int]:
    letter = {
        op.CATEGORY_DIGIT: "d",
        op.CATEGORY_NOT_DIGIT: "D",
        op.CATEGORY_SPACE: "s",
        op.CATEGORY_NOT_SPACE: "S",
        op.CATEGORY_WORD: "w",
        op.CATEGORY_NOT_WORD: "W",
    }.get(category)
    if letter is None:
        return frozenset()
    return frozenset(each for each in _SAMPLES if re.match("\\" + letter, chr(each)))


def _has_ambiguous_loop(automaton: _Automaton) -> bool:
    """Return whether a state reaches itself by one text in two ways: exponential ambiguity."""
    components = _components([list(each) for each in automaton.follow])
    for left, targets in enumerate(automaton.follow):
        for right, ways in targets.items():
            if ways > 1 and components[left] == components[right]:
                return True
    return _pairs_meet(automaton, components)


def _pairs_meet(automaton: _Automaton, components: list[int]) -> bool:
    """Search the pairs of states of a loop for a way from (q, q) over (p, r), p not r, back to (q, q)."""
    members: dict[int, list[int]] = {}
    for state, component in enumerate(components):
        members.setdefault(component, []).append(state)
    for states in members.values():
        if len(states) == 1 and states[0] not in automaton.follow[states[0]]:
            continue
        pairs = [(p, r) for p in states for r in states]
        index = {pair: number for number, pair in enumerate(pairs)}
        edges: list[list[int]] = []
        for p, r in pairs:
            automaton.work.count(1 + len(automaton.follow[p]) * len(automaton.follow[r]))
            edges.append(
                [
                    index[(np, nr)]
                    for np in automaton.follow[p]
                    for nr in automaton.follow[r]
                    if (np, nr) in index and automaton.classes[np] & automaton.classes[nr]
                ]
            )
        found = _components(edges)
        diagonal = {found[number] for number, (p, r) in enumerate(pairs) if p == r}
        if any(found[number] in diagonal for number, (p, r) in enumerate(pairs) if p != r):
            return True
    return False


def _components(edges: list[list[int]]) -> list[int]:
    """Return the strongly connected component of each vertex (Tarjan's algorithm, without recursion)."""
    order = [-1] * len(edges)
    low = [0] * len(edges)
    component = [-1] * len(edges)
    stack: list[int] = []
    count = 0
    for start in range(len(edges)):
        if order[start] >= 0:
            continue
        work = [(start, 0)]
        while work:
            vertex, position = work.pop()
            if position == 0:
                order[vertex] = low[vertex] = count
                count += 1
                stack.append(vertex)
            for offset in range(position, len(edges[vertex])):
                target = edges[vertex][offset]
                if order[target] < 0:
                    work.append((vertex, offset + 1))
                    work.append((target, 0))
                    break
                if component[target] < 0:
                    low[vertex] = min(low[vertex], order[target])
            else:
                if low[vertex] == order[vertex]:
                    while True:
                        member = stack.pop()
                        component[member] = vertex
                        if member == vertex:
                            break
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[vertex])
    return component


def _has_nested_loops(items: Any, loops: int) -> bool:
    for code, value in items:
        if code is op.SUBPATTERN and _has_nested_loops(value[-1], loops):
            return True
        if code is op.BRANCH and any(_has_nested_loops(each, loops) for each in value[1]):
            return True
        if code in (op.MAX_REPEAT, op.MIN_REPEAT):
            endless = int(value[1] is op.MAXREPEAT or value[1] > 10)
            if loops + endless > 1 or _has_nested_loops(value[2], loops + endless):
                return True
    return False
