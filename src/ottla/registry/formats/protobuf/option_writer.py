"""Writes the options of .proto declarations; normalised, they are sorted, qualified and merged."""

from __future__ import annotations

import decimal
from typing import Any

from ottla.registry.formats.protobuf.elements import Field, Message, Option, Word
from ottla.registry.formats.protobuf.type_table import Scope, TypeTable

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
}


class OptionWriter:
    """Prepares the options of the declarations in one scope."""

    def __init__(self, types: TypeTable | None, scope: Scope, ignore_extensions: bool) -> None:
        self._types = types
        self._scope = scope
        self._ignore_extensions = ignore_extensions

    def prepare(self, options: list[Option]) -> list[Option]:
        """Return the options to write: all of them, or without extensions, or normalised."""
        if self._ignore_extensions:
            options = [o for o in options if not o.parenthesized or o.name.startswith("confluent.")]
        if self._types is None or not options:
            return options
        by_name: dict[str, list[Option]] = {}
        for option in sorted(map(self._qualified, options), key=lambda each: each.name):
            by_name.setdefault(option.name, []).append(option)
        out: list[Option] = []
        for name, same in by_name.items():
            field = self._types.extension_fields.get(name) if same[0].parenthesized else None
            if field is None or field.label == "repeated":
                out += same
            else:
                merged = same[0]
                for option in same[1:]:
                    merged = self._merged(field, merged, option)
                out.append(merged)
        return [Option(each.name, self._sorted(each.value), each.parenthesized) for each in out]

    def _qualified(self, option: Option) -> Option:
        assert self._types is not None
        if not option.parenthesized:
            return option
        name = self._types.find_extension(option.name, self._scope)
        return option if name is None else Option(name, _as_map(option.value), True)

    def _merged(self, field: Field, left: Option, right: Option) -> Option:
        if isinstance(left.value, dict) and isinstance(right.value, dict):
            return Option(right.name, self._merged_maps(field, left.value, right.value), right.parenthesized)
        return right

    def _merged_maps(
        self, container: Field | None, left: dict[str, Any], right: dict[str, Any]
    ) -> dict[str, Any]:
        message = self._message(container)
        out = dict(left)
        for key, value in right.items():
            if key in out:
                field = next((f for f, _ in message.all_fields() if f.name == key), None) if message else None
                out[key] = self._merged_values(field, out[key], value)
            else:
                out[key] = value
        return out

    def _merged_values(self, field: Field | None, left: Any, right: Any) -> Any:
        if field is not None and field.label != "repeated":
            if isinstance(left, dict) and isinstance(right, dict) and self._message(field) is not None:
                return self._merged_maps(field, left, right)
            return right
        out = list(left) if isinstance(left, list) else [left]
        for each in right if isinstance(right, list) else [right]:
            if each not in out:
                out.append(each)
        return out

    def _message(self, field: Field | None) -> Message | None:
        if field is None or self._types is None:
            return None
        info = self._types.find(field.type, self._scope)
        return info.type if info is not None and isinstance(info.type, Message) else None

    def _sorted(self, value: Any) -> Any:
        """Return a message with its fields sorted, extension fields qualified, empty lists left out."""
        if isinstance(value, list):
            return [self._sorted(each) for each in value]
        if not isinstance(value, dict):
            return value
        out: dict[str, Any] = {}
        for key, each in value.items():
            if each == []:
                continue
            if key.startswith("[") and key.endswith("]") and self._types is not None:
                name = self._types.find_extension(key[1:-1], self._scope)
                key = f"[{name}]" if name is not None else key
            out.setdefault(key, self._sorted(each))
        return {key: out[key] for key in sorted(out)}


def _as_map(value: Any) -> Any:
    """Turn `(name).inner = 1` into `(name) = {inner: 1}`."""
    return {value.name: _as_map(value.value)} if isinstance(value, Option) else value


def write_statement(option: Option, *, normalize: bool) -> str:
    """Write `option name = value;`."""
    return f"option {_option(option, normalize)};\n"


def write_bracketed(options: list[Option], *, normalize: bool) -> str:
    """Write options in brackets: one on the same line, several each on its own."""
    return _list([_option(each, normalize) for each in options])


def _list(texts: list[str]) -> str:
    if len(texts) == 1:
        return f"[{texts[0]}]"
    return "[\n" + _lines(texts) + "]"


def _lines(texts: list[str]) -> str:
    out = []
    for number, text in enumerate(texts):
        comma = "," if number < len(texts) - 1 else ""
        out += [f"  {line}\n" for line in (text + comma).split("\n")]
    return "".join(out)


def _option(option: Option, normalize: bool) -> str:
    name = f"({option.name})" if option.parenthesized else option.name
    value = option.value
    if isinstance(value, Option):
        return f"{name}.{_option(value, normalize)}"
    if isinstance(value, list):
        return f"{name} = {_list([_value(each, normalize) for each in value])}"
    return f"{name} = {_value(value, normalize)}"


def _value(value: Any, normalize: bool) -> str:
    if isinstance(value, Word):
        return _number(value.text) if value.kind == "NUMBER" and normalize else value.text
    if isinstance(value, dict):
        return "{\n" + _lines([f"{key}: {_value(each, normalize)}" for key, each in value.items()]) + "}"
    if isinstance(value, list):
        if normalize and len(value) == 1:
            return _value(value[0], normalize)
        return "[\n" + _lines([_value(each, normalize) for each in value]) + "]"
    if isinstance(value, Option):
        return _option(value, normalize)
    return '"' + escaped(str(value)) + '"'


def escaped(text: str) -> str:
    """Write a string with Confluent's escapes."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def _number(text: str) -> str:
    """Write a number without exponent, with at most three decimals, as Java's DecimalFormat does."""
    try:
        number = decimal.Decimal(int(text, 16)) if text.lower().startswith("0x") else decimal.Decimal(text)
        if not number.is_finite() or abs(number.adjusted()) > 400:
            return text
    except (decimal.InvalidOperation, ValueError):
        return text
    with decimal.localcontext() as context:
        context.prec = 1_000
        rounded = number.quantize(decimal.Decimal("0.001"), rounding=decimal.ROUND_HALF_EVEN)
    out = format(rounded, "f").rstrip("0").rstrip(".")
    return "-0" if out in ("-0", "-") else out or "0"
