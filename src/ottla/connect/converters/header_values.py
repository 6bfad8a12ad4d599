"""The texts of headers: what a text stands for, and the text of a value, as Connect's SimpleHeaderConverter.

A number gets the smallest type that holds it. Dates, times and timestamps have ISO 8601's form. Arrays and
maps are like JSON's; their elements get the type that holds all of them. Anything else is a text as it is.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from ottla.connect.data import schema as s
from ottla.connect.data.schema import Schema

Parsed = tuple[Schema | None, Any]
TEXT, BYTES = Schema(s.STRING), Schema(s.BYTES)
_TOKEN = re.compile(r'\\.|[{}\[\]:,"]|[^\\{}\[\]:,"]+|\\', re.DOTALL)
_TIMES = {10: ("%Y-%m-%d", s.date_schema()), 13: ("%H:%M:%S.%fZ", s.time_schema())}
_TIMESTAMP = "%Y-%m-%dT%H:%M:%S.%fZ"
_WORDS: dict[str, Parsed] = {
    "null": (None, None),
    "true": (Schema(s.BOOLEAN), True),
    "false": (Schema(s.BOOLEAN), False),
}
_MAX_FLOAT32 = 3.4028235677973366e38
_MAX_DIGITS = 1_000
"""More digits are a text: they would cost seconds."""
_DEPTH = 100
_TIME_TOKENS = 5
"""Of a time with two colons. To look for one in more tokens costs minutes for a long text."""


class _NoValue(Exception):
    """A text that is no array, map or element."""


def parse(text: str) -> Parsed:
    """Return the schema and the value that a text stands for."""
    if not text:
        return TEXT, text
    tokens = _Tokens(text)
    if tokens.peek() in ("[", "{"):
        try:
            found = _element(tokens, _DEPTH)
        except _NoValue:
            return TEXT, text
        return found if tokens.peek() is None else (TEXT, text)
    trimmed = text.strip()
    if trimmed in _WORDS:
        return _WORDS[trimmed]
    if tokens.is_one_word() or _temporal(trimmed) is not None:
        return _scalar(trimmed) or (TEXT, text)
    return TEXT, text


class _Tokens:
    """Words and delimiters, in their order."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def is_one_word(self) -> bool:
        """Tell whether there is no delimiter."""
        return len(self._tokens) == 1

    def peek(self) -> str | None:
        """Return the next one that is not blank; None at the end."""
        while self._at < len(self._tokens) and not self._tokens[self._at].strip():
            self._at += 1
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def next(self) -> str:
        """Take the next one that is not blank."""
        found = self.peek()
        if found is None:
            raise _NoValue
        self._at += 1
        return found

    def takes(self, wanted: str) -> bool:
        """Take the next one if it is this one."""
        if self.peek() != wanted:
            return False
        self._at += 1
        return True

    def quoted(self) -> str:
        """Take everything up to the closing quote."""
        found: list[str] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token == '"':
                return "".join(found)
            found.append(token[1:] if token[0] == "\\" and len(token) > 1 else token)
        raise _NoValue

    def word(self) -> str:
        """Take what comes before the next delimiter."""
        found = [self.next()]
        if found[0] in '{}[]:,"':
            raise _NoValue
        while self._at < len(self._tokens) and (token := self._tokens[self._at]) not in (",", "]", "}"):
            may_be_time = len(found) < _TIME_TOKENS
            if token == ":" and not may_be_time:
                break
            found.append(token)
            self._at += 1
            if may_be_time and _temporal("".join(found).strip()) is not None:
                break
        return "".join(found).strip()


def _element(tokens: _Tokens, depth: int) -> Parsed:
    if depth == 0:
        raise _NoValue
    if tokens.takes("["):
        return _array(tokens, depth)
    if tokens.takes("{"):
        return _map(tokens, depth)
    if tokens.takes('"'):
        text = tokens.quoted()
        return _temporal(text) or (TEXT, text)
    word = _simple_word(tokens)
    if word in _WORDS:
        return _WORDS[word]
    found = _scalar(word)
    if found is None:
        raise _NoValue
    return found


def _simple_word(tokens: _Tokens) -> str:
    """Take a word; a colon ends it, unless it is a time's."""
    before = tokens._at
    word = tokens.word()
    if ":" in word and _temporal(word) is None:
        tokens._at = before
        word = tokens.next().strip()
    return word


def _array(tokens: _Tokens, depth: int) -> Parsed:
    values: list[Parsed] = []
    while not tokens.takes("]"):
        if values and not tokens.takes(","):
            raise _NoValue
        if values and tokens.takes("]"):
            break
        values.append(_element(tokens, depth - 1))
    items = common_schema(schema for schema, _ in values)
    return Schema(s.ARRAY, items=items), [_as(items, each) for _, each in values]


def _map(tokens: _Tokens, depth: int) -> Parsed:
    entries: list[tuple[Parsed, Parsed]] = []
    while not tokens.takes("}"):
        if entries and not tokens.takes(","):
            raise _NoValue
        key = _element(tokens, depth - 1)
        if key[1] is None or isinstance(key[1], dict | list) or not tokens.takes(":"):
            raise _NoValue
        entries.append((key, _element(tokens, depth - 1)))
    keys = common_schema(key[0] for key, _ in entries)
    items = common_schema(value[0] for _, value in entries)
    found = {_as(keys, key[1]): _as(items, value[1]) for key, value in entries}
    return Schema(s.MAP, keys=keys, items=items), found


def common_schema(schemas: Iterable[Schema | None]) -> Schema | None:
    """Return the schema that holds the values of all; None if there is none."""
    order = (*s.INTEGERS, *s.FLOATS)
    found: Schema | None = None
    has_null = False
    for each in schemas:
        if each is None:
            has_null = True
        elif found is None or found == each:
            found = each
        elif found.type in order and each.type in order and found.name is None and each.name is None:
            found = max(found, each, key=lambda one: order.index(one.type))
        else:
            return None
    return found.as_optional() if found is not None and has_null else found


def _as(schema: Schema | None, value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if schema is not None and schema.type in s.FLOATS and is_number else value


def _scalar(text: str) -> Parsed | None:
    if not text or not (text[0].isdigit() or text[0] in "+-"):
        return None
    return _temporal(text) or _number(text)


def _temporal(text: str) -> Parsed | None:
    if not text or not text[0].isdigit():
        return None
    try:
        if len(text) == 24:
            return s.timestamp_schema(), datetime.strptime(text, _TIMESTAMP).replace(tzinfo=UTC)
        if len(text) in _TIMES:
            form, schema = _TIMES[len(text)]
            moment = datetime.strptime(text, form)
            return schema, moment.date() if schema.name == s.DATE_NAME else moment.time()
    except ValueError:
        pass
    return None


def _number(text: str) -> Parsed | None:
    if not text.isascii() or "_" in text or len(text) > _MAX_DIGITS:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > _MAX_DIGITS:
        return None
    if number == number.to_integral_value():
        whole = int(number)
        for kind, bits in s.INTEGERS.items():
            if -(1 << bits - 1) <= whole < 1 << bits - 1:
                return Schema(kind), whole
        if number.as_tuple().exponent == 0:
            return s.decimal(0), Decimal(whole)
    if abs(number) <= _MAX_FLOAT32:
        return Schema(s.FLOAT32), float(number)
    if math.isinf(found := float(number)):
        exponent = number.as_tuple().exponent
        return s.decimal(-exponent if isinstance(exponent, int) else 0), number
    return Schema(s.FLOAT64), found


def java_float_text(value: float) -> str:
    """Return a number as Java's Double.toString: 1.0E7 from 10^7 on, and 1.0E-4 below 10^-3."""
    if value != value or value in (math.inf, -math.inf):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def text_of(value: Any, *, is_inner: bool = False) -> str:
    """Return the text of a value; texts in arrays and maps have quotes."""
    if isinstance(value, str):
        if not is_inner:
            return value
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return f"{value:%H:%M:%S}.{value.microsecond // 1000:03d}Z"
    if isinstance(value, dict):
        inner = (
            f"{text_of(key, is_inner=True)}:{text_of(each, is_inner=True)}" for key, each in value.items()
        )
        return "{" + ",".join(inner) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(text_of(each, is_inner=True) for each in value) + "]"
    if isinstance(value, float):
        return java_float_text(value)
    return format(value, "f") if isinstance(value, Decimal) else str(value)
