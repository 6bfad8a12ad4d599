"""What a topic should hold against what it holds, for people to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from ottla.client.consumer import ConsumerRecord

SHOWN = 200
"""Characters of a value."""
LINES = 50

Decode = Callable[[bytes], Any]


class Expected(NamedTuple):
    """A record to come; `key` counts if it was given."""

    value: Any
    has_key: bool = False
    key: Any = None

    def is_met_by(self, record: ConsumerRecord, decode: Decode | None) -> bool:
        """Return whether this is that record."""
        if self.has_key and self.key != record.key:
            return False
        return bool(self.value == _decoded(record, decode))

    def __str__(self) -> str:
        return _shown(self.key, self.value, self.has_key)


def in_form(expected: Any, decode: Decode | None) -> Expected:
    """Return what the user wrote as an `Expected`: a value, or a tuple of key and value."""
    if isinstance(expected, tuple) and not isinstance(expected, ConsumerRecord):
        key, value = expected
        return Expected(value if decode else _encoded(value), True, _encoded(key))
    return Expected(expected if decode else _encoded(expected))


def difference(
    wanted: Sequence[Expected], found: Sequence[ConsumerRecord], *, any_order: bool, decode: Decode | None
) -> str:
    """Return lines with `-` for what is missing and `+` for what is too much; empty if there is neither."""
    lines = list(_unordered(wanted, found, decode) if any_order else _ordered(wanted, found, decode))
    if not any(line[0] in "-+" for line in lines):
        return ""
    if len(lines) > LINES:
        first = next(at for at, line in enumerate(lines) if line[0] in "-+")
        start = max(0, first - LINES // 5)
        lines = [
            f"  ... {start} more",
            *lines[start : start + LINES],
            f"  ... {len(lines) - start - LINES} more",
        ]
    return "\n".join(["  - expected, not received;  + received, not expected", *lines])


def _ordered(
    wanted: Sequence[Expected], found: Sequence[ConsumerRecord], decode: Decode | None
) -> Iterator[str]:
    if len(wanted) == len(found) and all(
        one.is_met_by(other, decode) for one, other in zip(wanted, found, strict=True)
    ):
        return
    keyed = any(each.has_key for each in wanted)
    left = [str(each) for each in wanted]
    right = [_shown(each.key, _decoded(each, decode), keyed) for each in found]
    for kind, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (f"  {_place(found[at])} {right[at]}" for at in range(c, d))
            continue
        yield from (f"- {left[at]}" for at in range(a, b))
        yield from (f"+ {_place(found[at])} {right[at]}" for at in range(c, d))


def _unordered(
    wanted: Sequence[Expected], found: Sequence[ConsumerRecord], decode: Decode | None
) -> Iterator[str]:
    left = list(found)
    for each in wanted:
        at = next((at for at, record in enumerate(left) if each.is_met_by(record, decode)), None)
        if at is None:
            yield f"- {each}"
        else:
            yield f"  {_place(left[at])} {each}"
            del left[at]
    yield from (f"+ {_place(each)} {_shown(each.key, _decoded(each, decode), True)}" for each in left)


def _decoded(record: ConsumerRecord, decode: Decode | None) -> Any:
    if decode is None or record.value is None:
        return record.value
    try:
        return decode(record.value)
    except Exception as error:
        return f"{record.value!r}, which cannot be decoded: {error}"


def _place(record: ConsumerRecord) -> str:
    return f"[{record.partition}:{record.offset}]"


def _shown(key: Any, value: Any, with_key: bool) -> str:
    text = f"{key!r}: {value!r}" if with_key else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


def _encoded(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
