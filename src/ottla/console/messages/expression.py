"""Expressions that choose messages, as SQL writes conditions.

    $.total > 100 AND $.customer.country = 'NO'
    key LIKE 'order-%' OR header.trace IS NOT NULL
    value CONTAINS 'timeout' AND timestamp >= '2026-11-16T12:00'
    $.items[*].sku IN ('a-1', 'a-2') AND NOT $.test
    $..email MATCHES '@example\\.org$'

Operands: `$` paths and `value` (the decoded value), `key` (with a path behind it, if it is JSON),
`header.NAME` or `header['NAME']`, `partition`, `offset`, `timestamp`, `size`; texts in quotes, numbers, true,
false, null. A path that finds several values holds if it holds for one of them. Texts and numbers are
compared as numbers where both are.

An expression is compiled to closures. Beside that it says which bytes a record that matches must contain:
whole batches without them need not be decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ottla.console.messages.json_path import JsonPath, read_steps
from ottla.console.messages.message import Message

Test = Callable[[Message], bool]
Values = Callable[[Message], Iterable[Any]]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<string>'(?:[^']|'')*'|"[^"]*")
      | (?P<op><=|>=|<>|!=|==|=|<|>|\(|\)|,)
      | (?P<path>\$)
      | (?P<word>[A-Za-z_]\w*)
    )""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"[A-Za-z0-9 _.:@+-]+")
_SHORTEST_NEEDLE = 3
_FACTS = ("partition", "offset", "timestamp", "size")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
MAX_CHARACTERS = 4_000
MAX_DEPTH = 50


class BadExpression(ValueError):
    """An expression that cannot be read; says where and why."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    test: Test
    needles: tuple[bytes, ...] = ()
    """Each of these is among the bytes of every record that matches, unless those are packed or escaped."""


def parse(text: str) -> Expression:
    """Return the compiled expression of a text; raise BadExpression."""
    if len(text) > MAX_CHARACTERS:
        raise BadExpression(f"an expression has at most {MAX_CHARACTERS} characters")
    parser = _Parser(text)
    test, needles = parser.either()
    if parser.token[0] != "end":
        raise parser.unexpected("AND, OR, or the end")
    return Expression(text, test, tuple(needles))


def everything() -> Expression:
    """Return the expression that matches every message."""
    return Expression("", lambda message: True)


def joined(parts: Iterable[Expression]) -> Expression:
    """Return the expression that matches what all of these match."""
    given = list(parts)
    if len(given) == 1:
        return given[0]
    tests = [each.test for each in given]
    needles = tuple(needle for each in given for needle in each.needles)
    return Expression(
        " AND ".join(f"({each.text})" for each in given),
        lambda message: all(t(message) for t in tests),
        needles,
    )


def quoted(text: str) -> str:
    """Return a text as an expression writes it."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class _Operand:
    values: Values
    literal: Any = None
    is_literal: bool = False
    is_time: bool = False
    is_raw: bool = False
    """Whether its text is among the record's bytes as it is."""


_Parsed = tuple[Test, list[bytes]]


class _Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0
        self._depth = 0
        self.token: tuple[str, str] = ("", "")
        self._began = 0
        self._advance()

    def unexpected(self, wanted: str) -> BadExpression:
        """Return the error for the token that is here."""
        kind, value = self.token
        found = "it ends" if kind == "end" else f"there is {value!r}"
        return BadExpression(f"at character {self._began + 1} {found}, where {wanted} would be")

    def either(self) -> _Parsed:
        """Read conditions joined by OR."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadExpression("it is nested too deeply")
        tests, needles = [], []
        while True:
            test, found = self._both()
            tests.append(test)
            needles.append(found)
            if not self._take_word("or"):
                break
        self._depth -= 1
        if len(tests) == 1:
            return tests[0], needles[0]
        return lambda message: any(each(message) for each in tests), []

    def _both(self) -> _Parsed:
        tests, needles = [], []
        while True:
            test, found = self._negated()
            tests.append(test)
            needles += found
            if not self._take_word("and"):
                break
        if len(tests) == 1:
            return tests[0], needles
        return lambda message: all(each(message) for each in tests), needles

    def _negated(self) -> _Parsed:
        if self._take_word("not"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise BadExpression("it is nested too deeply")
            test, _ = self._negated()
            self._depth -= 1
            return lambda message: not test(message), []
        if self.token == ("op", "("):
            self._advance()
            found = self.either()
            self._expect(")")
            return found
        return self._condition()

    def _condition(self) -> _Parsed:
        left = self._operand()
        kind, value = self.token
        if kind == "op" and value in ("=", "==", "!=", "<>", "<", "<=", ">", ">="):
            self._advance()
            operator = {"==": "=", "<>": "!="}.get(value, value)
            right = self._operand()
            needles = _needles(left, right) if operator == "=" else []
            return _compared(left, right, operator), needles
        if kind == "word":
            found = self._worded(left)
            if found is not None:
                return found
        if left.is_literal:
            raise self.unexpected("a comparison")
        return lambda message: any(bool(each) for each in left.values(message)), []

    def _worded(self, left: _Operand) -> _Parsed | None:
        is_negated = self._take_word("not")
        for word, read in (
            ("contains", self._contains),
            ("like", self._like),
            ("ilike", self._ilike),
            ("matches", self._matches),
            ("in", self._among),
            ("between", self._between),
        ):
            if self._take_word(word):
                test, needles = read(left)
                return (_not(test), []) if is_negated else (test, needles)
        if is_negated:
            raise self.unexpected("IN, LIKE, CONTAINS, MATCHES or BETWEEN")
        if self._take_word("is"):
            wants_value = self._take_word("not")
            if not self._take_word("null"):
                raise self.unexpected("NULL")
            return (lambda message: _is_null(left, message) is not wants_value), []
        return None

    def _contains(self, left: _Operand) -> _Parsed:
        needle = self._string()
        test = _any_text(left, lambda text: needle in text)
        return test, _needle(needle) if left.is_raw else []

    def _like(self, left: _Operand) -> _Parsed:
        pattern = self._string()
        matches = like(pattern)
        longest = max(re.split(r"[%_]", pattern), key=len)
        return _any_text(left, matches), _needle(longest) if left.is_raw else []

    def _ilike(self, left: _Operand) -> _Parsed:
        matches = like(self._string().lower())
        return _any_text(left, lambda text: matches(text.lower())), []

    def _matches(self, left: _Operand) -> _Parsed:
        return _any_text(left, regular(self._string())), []

    def _among(self, left: _Operand) -> _Parsed:
        self._expect("(")
        tests = [_compared(left, self._operand(), "=")]
        while self.token == ("op", ","):
            self._advance()
            tests.append(_compared(left, self._operand(), "="))
        self._expect(")")
        return lambda message: any(each(message) for each in tests), []

    def _between(self, left: _Operand) -> _Parsed:
        low = _compared(left, self._operand(), ">=")
        if not self._take_word("and"):
            raise self.unexpected("AND")
        high = _compared(left, self._operand(), "<=")
        return lambda message: low(message) and high(message), []

    def _operand(self) -> _Operand:
        kind, value = self.token
        if kind == "number":
            self._advance()
            number = int(value) if value.lstrip("-").isdigit() else float(value)
            return _literal(number)
        if kind == "string":
            return _literal(self._string())
        if kind == "path":
            return self._path_of_value()
        if kind == "word":
            return self._named(value.lower())
        raise self.unexpected("a path, a field or a value")

    def _path_of_value(self) -> _Operand:
        path = JsonPath("$", self._steps())
        return _Operand(lambda message: path.find(message.value.data), is_raw=True)

    def _named(self, word: str) -> _Operand:
        if word in ("true", "false", "null"):
            self._advance()
            return _literal({"true": True, "false": False, "null": None}[word])
        if word in _FACTS:
            self._advance()
            return _Operand(_fact(word), is_time=word == "timestamp")
        if word in ("header", "headers"):
            steps = self._steps()
            if len(steps) != 1 or steps[0][0] != "name":
                raise BadExpression("name a header: header.trace or header['x-trace']")
            name = str(steps[0][1])
            return _Operand(lambda message: _given(message.header(name)), is_raw=True)
        if word in ("key", "value"):
            path = JsonPath("$", self._steps())
            return _Operand(_part(word, path), is_raw=True)
        raise self.unexpected("key, value, $.path, header.NAME, partition, offset, timestamp or size")

    def _steps(self) -> tuple[tuple[str, Any], ...]:
        """Read the steps that follow the word or the `$` that is here."""
        steps, self._at = read_steps(self.text, self._at)
        self._advance()
        return steps

    def _string(self) -> str:
        kind, value = self.token
        if kind != "string":
            raise self.unexpected("a text in quotes")
        self._advance()
        return value[1:-1].replace("''", "'") if value[0] == "'" else value[1:-1]

    def _take_word(self, word: str) -> bool:
        if self.token[0] == "word" and self.token[1].lower() == word:
            self._advance()
            return True
        return False

    def _expect(self, op: str) -> None:
        if self.token != ("op", op):
            raise self.unexpected(repr(op))
        self._advance()

    def _advance(self) -> None:
        rest = self.text[self._at :]
        self._began = self._at + len(rest) - len(rest.lstrip())
        if not rest.strip():
            self.token = ("end", "")
            return
        found = _TOKEN.match(self.text, self._at)
        if found is None:
            raise BadExpression(f"{rest.strip()[:12]!r} cannot be read; texts are written in quotes")
        self._at = found.end()
        kind = found.lastgroup or ""
        self.token = (kind, found[kind])


def _not(test: Test) -> Test:
    return lambda message: not test(message)


def _literal(value: Any) -> _Operand:
    return _Operand(lambda message: (value,), value, is_literal=True)


def _given(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)


def _fact(name: str) -> Values:
    if name == "size":
        return lambda message: (len(message.record.value or b"") + len(message.record.key or b""),)
    return lambda message: (getattr(message.record, name),)


def _part(name: str, path: JsonPath) -> Values:
    if path.steps:
        return lambda message: path.find(getattr(message, name).data)

    def whole(message: Message) -> Iterable[Any]:
        found = getattr(message, name)
        if found.kind == "null":
            return ()
        is_plain = found.is_structured and not isinstance(found.data, dict | list)
        return (found.data,) if is_plain else (found.text,)

    return whole


def _is_null(operand: _Operand, message: Message) -> bool:
    return all(each is None for each in operand.values(message))


def _any_text(operand: _Operand, test: Callable[[str], bool]) -> Test:
    def run(message: Message) -> bool:
        return any(each is not None and test(_as_text(each)) for each in operand.values(message))

    return run


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _compared(left: _Operand, right: _Operand, operator: str) -> Test:
    compare = _COMPARISONS[operator]
    if left.is_time and right.is_literal and isinstance(right.literal, str):
        right = _literal(time_ms(right.literal))

    if right.is_literal and not isinstance(right.literal, str):
        literal = right.literal

        def against(message: Message) -> bool:
            return any(_holds(compare, operator, a, literal) for a in left.values(message))

        return against

    def run(message: Message) -> bool:
        for a in left.values(message):
            for b in right.values(message):
                if _holds(compare, operator, a, b):
                    return True
        return False

    return run


def _holds(compare: Callable[[Any, Any], bool], operator: str, a: Any, b: Any) -> bool:
    if isinstance(a, str) is not isinstance(b, str):
        number = _number(a if isinstance(a, str) else b)
        if number is not None and not isinstance(a if isinstance(b, str) else b, bool | None):
            a, b = (number, b) if isinstance(a, str) else (a, number)
    try:
        return compare(a, b)
    except TypeError:
        return operator == "!="


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def time_ms(text: str) -> int:
    """Return a time as milliseconds since 1970: those, or ISO 8601 (UTC by default)."""
    try:
        if text.isascii() and text.isdigit():
            found = int(text)
        else:
            moment = datetime.fromisoformat(text)
            found = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        found = -1
    if not 0 <= found < 2**63:  # brokers give negative times meanings of their own
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise BadExpression(f"{shown!r} is not a time since 1970; write 2026-11-15T13:00:00 or milliseconds")
    return found


def _needles(left: _Operand, right: _Operand) -> list[bytes]:
    for path, literal in ((left, right), (right, left)):
        if path.is_raw and literal.is_literal and isinstance(literal.literal, str):
            return [] if _number(literal.literal) is not None else _needle(literal.literal)
    return []


def _needle(text: str) -> list[bytes]:
    is_plain = len(text) >= _SHORTEST_NEEDLE and _PLAIN.fullmatch(text) and not text.startswith("0x")
    return [text.encode()] if is_plain else []


def like(pattern: str) -> Callable[[str], bool]:
    """Return what tests a text against a pattern with % (any text) and _ (any character), in linear time."""
    parts = [re.compile(re.escape(each).replace("_", "."), re.DOTALL) for each in pattern.split("%")]
    if len(parts) == 1:
        return lambda text: parts[0].fullmatch(text) is not None
    first, *middle, last = parts
    last_length = len(pattern.split("%")[-1])

    def run(text: str) -> bool:
        begin = first.match(text)
        if begin is None:
            return False
        at = begin.end()
        for each in middle:
            found = each.search(text, at)
            if found is None:
                return False
            at = found.end()
        end = len(text) - last_length
        return end >= at and last.fullmatch(text, end) is not None

    return run


def regular(pattern: str) -> Callable[[str], bool]:
    """Return what searches a text for a regular expression, in linear time, whatever the pattern."""
    import jsonschema_rs

    try:
        validator = jsonschema_rs.Draft202012Validator(
            {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions(size_limit=1_000_000)
        )
    except (ValueError, jsonschema_rs.ValidationError):
        what = "is not a regular expression, or one that needs too much memory"
        raise BadExpression(f"{pattern!r} {what}") from None
    return lambda text: bool(validator.is_valid(text))
