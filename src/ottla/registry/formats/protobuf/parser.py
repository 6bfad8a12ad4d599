"""Reads .proto text into elements.

It reads what the grammar allows and leaves the meaning to protoc (`compiler`), which checks every new schema.
"""

from __future__ import annotations

from typing import Any

from ottla.registry.formats.limits import MAX_DEPTH
from ottla.registry.formats.protobuf.elements import (
    MAX_TAG,
    Enum,
    EnumValue,
    Extend,
    Field,
    Group,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Ranges,
    Rpc,
    Service,
    Word,
)
from ottla.registry.formats.protobuf.tokens import Tokens

_LABELS = ("optional", "required", "repeated")
_MAX_ENUM = (1 << 31) - 1


def parse_proto(text: str) -> ProtoFile:
    """Parse the text of a .proto file."""
    return _Parser(Tokens(text)).file()


class _Parser:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._depth = 0

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._tokens.error(f"declarations are nested deeper than {MAX_DEPTH} levels")

    def file(self) -> ProtoFile:
        out = ProtoFile()
        tokens = self._tokens
        while not tokens.at_end:
            if tokens.accept(";"):
                continue
            keyword = tokens.word()
            if keyword in ("syntax", "edition"):
                tokens.expect("=")
                setattr(out, keyword, tokens.string())
                tokens.expect(";")
                if keyword == "syntax" and out.syntax not in ("proto2", "proto3"):
                    raise tokens.error(f"unknown syntax: {out.syntax}")
            elif keyword == "package":
                out.package = tokens.word()
                tokens.expect(";")
            elif keyword == "import":
                self._import(out)
            elif keyword == "option":
                out.options.append(self._option_statement())
            elif keyword == "message":
                out.types.append(self._message())
            elif keyword == "enum":
                out.types.append(self._enum())
            elif keyword == "service":
                out.services.append(self._service())
            elif keyword == "extend":
                out.extends.append(self._extend(out.types))
            else:
                raise tokens.error(f"unexpected label: {keyword}")
        return out

    def _import(self, out: ProtoFile) -> None:
        if self._tokens.accept("public"):
            imports = out.public_imports
        elif self._tokens.accept("weak"):
            imports = out.weak_imports
        else:
            imports = out.imports
        imports.append(self._tokens.string())
        self._tokens.expect(";")

    def _message(self) -> Message:
        out = Message(self._tokens.word())
        self._deeper()
        self._tokens.expect("{")
        while not self._tokens.accept("}"):
            self._member(out)
        self._depth -= 1
        return out

    def _member(self, out: Message) -> None:
        tokens = self._tokens
        if tokens.accept(";"):
            return
        word = tokens.word()
        if word == "message":
            out.types.append(self._message())
        elif word == "enum":
            out.types.append(self._enum())
        elif word == "oneof":
            out.oneofs.append(self._oneof(out))
        elif word == "extend":
            out.extends.append(self._extend(out.types))
        elif word == "option":
            out.options.append(self._option_statement())
        elif word == "reserved":
            out.reserved.append(self._ranges(MAX_TAG))
        elif word == "extensions":
            out.extensions.append(self._ranges(MAX_TAG))
        elif word == "group":
            out.groups.append(self._group(None, out.types))
        elif word in _LABELS:
            kind = tokens.word()
            if kind == "group":
                out.groups.append(self._group(word, out.types))
            else:
                out.fields.append(self._field(word, kind))
        else:
            out.fields.append(self._field(None, word))

    def _field(self, label: str | None, kind: str) -> Field:
        tokens = self._tokens
        if kind == "map" and tokens.accept("<"):
            key = tokens.word()
            tokens.expect(",")
            kind = f"map<{key}, {tokens.word()}>"
            tokens.expect(">")
        name = tokens.word()
        tokens.expect("=")
        out = Field(label, kind, name, tokens.integer())
        for option in self._bracketed_options():
            if option.name == "default" and not option.parenthesized:
                out.default = _plain(option.value)
            elif option.name == "json_name" and not option.parenthesized:
                out.json_name = _plain(option.value)
            else:
                out.options.append(option)
        tokens.expect(";")
        return out

    def _group(self, label: str | None, types: list[Message | Enum]) -> Group:
        tokens = self._tokens
        name = tokens.word()
        tokens.expect("=")
        out = Group(label, name, tokens.integer())
        self._bracketed_options()
        self._deeper()
        tokens.expect("{")
        inner = Message(name)
        while not tokens.accept("}"):
            self._member(inner)
        self._depth -= 1
        out.fields, out.types = inner.fields, inner.types
        return out

    def _oneof(self, message: Message) -> OneOf:
        tokens = self._tokens
        out = OneOf(tokens.word())
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            word = tokens.word()
            if word == "option":
                out.options.append(self._option_statement())
            elif word == "group":
                out.groups.append(self._group(None, message.types))
            else:
                out.fields.append(self._field(None, word))
        return out

    def _extend(self, types: list[Message | Enum]) -> Extend:
        out = Extend(self._tokens.word())
        self._deeper()
        inner = Message(out.name)
        self._tokens.expect("{")
        while not self._tokens.accept("}"):
            self._member(inner)
        self._depth -= 1
        out.fields = inner.fields
        return out

    def _ranges(self, most: int) -> Ranges:
        tokens = self._tokens
        out = Ranges([])
        while True:
            if tokens.at_string():
                out.values.append(tokens.string())
            elif tokens.peek()[:1].isalpha() or tokens.peek()[:1] == "_":
                out.values.append(tokens.word())
            else:
                first = tokens.integer()
                if tokens.accept("to"):
                    out.values.append((first, most if tokens.accept("max") else tokens.integer()))
                else:
                    out.values.append(first)
            if not tokens.accept(","):
                break
        out.options = self._bracketed_options()
        tokens.expect(";")
        return out

    def _enum(self) -> Enum:
        tokens = self._tokens
        out = Enum(tokens.word())
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            word = tokens.word()
            if word == "option" and tokens.peek() != "=":
                out.options.append(self._option_statement())
            elif word == "reserved" and tokens.peek() != "=":
                out.reserved.append(self._ranges(_MAX_ENUM))
            else:
                tokens.expect("=")
                value = EnumValue(word, tokens.integer())
                value.options = self._bracketed_options()
                tokens.expect(";")
                out.values.append(value)
        return out

    def _service(self) -> Service:
        tokens = self._tokens
        out = Service(tokens.word())
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            word = tokens.word()
            if word == "option":
                out.options.append(self._option_statement())
            elif word == "rpc":
                out.rpcs.append(self._rpc())
            else:
                raise tokens.error(f"unexpected label: {word}")
        return out

    def _rpc(self) -> Rpc:
        tokens = self._tokens
        out = Rpc(tokens.word(), "", "")
        out.request_streaming, out.request = self._rpc_type()
        tokens.expect("returns")
        out.response_streaming, out.response = self._rpc_type()
        if tokens.accept("{"):
            while not tokens.accept("}"):
                if not tokens.accept(";"):
                    tokens.expect("option")
                    out.options.append(self._option_statement())
            tokens.accept(";")
        else:
            tokens.expect(";")
        return out

    def _rpc_type(self) -> tuple[bool, str]:
        self._tokens.expect("(")
        word = self._tokens.word()
        streaming = word == "stream" and self._tokens.peek() != ")"
        if streaming:
            word = self._tokens.word()
        self._tokens.expect(")")
        return streaming, word

    def _option_statement(self) -> Option:
        option = self._option("=")
        self._tokens.expect(";")
        return option

    def _bracketed_options(self) -> list[Option]:
        out: list[Option] = []
        if self._tokens.accept("["):
            while not self._tokens.accept("]"):
                out.append(self._option("="))
                if not self._tokens.accept(","):
                    self._tokens.expect("]")
                    break
        return out

    def _option(self, separator: str) -> Option:
        tokens = self._tokens
        parenthesized = bracketed = False
        if tokens.accept("("):
            parenthesized = True
            name = tokens.word()
            tokens.expect(")")
        elif tokens.accept("["):
            bracketed = True
            name = tokens.word()
            if tokens.accept("/"):
                name += "/" + tokens.word()
            tokens.expect("]")
        else:
            name = tokens.word()
        inner: list[str] = []
        if parenthesized and tokens.peek().startswith("."):
            inner = tokens.word()[1:].split(".")
        if not (separator == ":" and tokens.peek() == "{"):
            tokens.expect(separator)
        value = self._value()
        for part in reversed(inner):
            value = Option(part, value)
        return Option(f"[{name}]" if bracketed else name, value, parenthesized)

    def _value(self) -> Any:
        tokens = self._tokens
        if tokens.at_string():
            return tokens.string()
        if tokens.accept("{"):
            return self._map("}")
        if tokens.accept("<"):
            return self._map(">")
        if tokens.accept("["):
            return self._list()
        word = tokens.word()
        if word in ("true", "false"):
            return Word("BOOLEAN", word)
        return Word("NUMBER" if word[0].isdigit() or word[0] in "-+." else "ENUM", word)

    def _map(self, end: str) -> dict[str, Any]:
        self._deeper()
        out: dict[str, Any] = {}
        repeated: set[str] = set()
        while not self._tokens.accept(end):
            option = self._option(":")
            if option.name not in out:
                out[option.name] = option.value
            else:
                if option.name not in repeated:
                    first = out[option.name]
                    out[option.name] = first if isinstance(first, list) else [first]
                    repeated.add(option.name)
                more = option.value
                out[option.name] += more if isinstance(more, list) else [more]
            if not self._tokens.accept(","):
                self._tokens.accept(";")
        self._depth -= 1
        return out

    def _list(self) -> list[Any]:
        self._deeper()
        out = []
        while not self._tokens.accept("]"):
            out.append(self._value())
            if not self._tokens.accept(","):
                self._tokens.expect("]")
                break
        self._depth -= 1
        return out


def _plain(value: Any) -> str:
    return value.text if isinstance(value, Word) else str(value)
