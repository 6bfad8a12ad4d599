"""Generates pairs of Protobuf schemas: an old one, and a new one that differs in one to three places."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field

SCALARS = [
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "bool",
    "string",
    "bytes",
    "fixed32",
    "sfixed32",
    "fixed64",
    "sfixed64",
    "float",
    "double",
]


@dataclass
class _Field:
    name: str
    tag: int
    type: str
    label: str = ""
    oneof: str = ""


@dataclass
class _Message:
    name: str
    fields: list[_Field] = field(default_factory=list)
    nested: list[_Message] = field(default_factory=list)
    enums: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class _File:
    syntax: str
    package: str
    messages: list[_Message] = field(default_factory=list)


def protobuf_pair(rng: random.Random) -> tuple[str, str]:
    old = _file(rng)
    new = copy.deepcopy(old)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        _mutate(rng, new)
    if rng.random() < 0.05:
        new = _file(rng)
    return _text(old), _text(new)


def _file(rng: random.Random) -> _File:
    out = _File(rng.choice(("proto2", "proto3", "proto3")), rng.choice(("", "p", "p.q")))
    for number in range(rng.randint(1, 3)):
        out.messages.append(_message(rng, f"M{number}", out, 0))
    return out


def _message(rng: random.Random, name: str, file: _File, depth: int) -> _Message:
    out = _Message(name)
    if depth < 2:
        for number in range(rng.choice((0, 0, 1, 2))):
            out.nested.append(_message(rng, f"N{number}", file, depth + 1))
    if rng.random() < 0.4:
        out.enums["E"] = sorted({0, *rng.sample(range(1, 6), rng.randint(0, 3))})
    for tag in rng.sample(range(1, 8), rng.randint(0, 5)):
        out.fields.append(_field(rng, out, tag, file))
    return out


def _type(rng: random.Random, message: _Message, *, maps: bool = True) -> str:
    roll = rng.random()
    if roll < 0.15 and message.nested:
        return rng.choice(message.nested).name
    if roll < 0.25 and message.enums:
        return "E"
    if roll < 0.32:
        return "M0"
    if roll < 0.42 and maps:
        return f"map<{rng.choice(('string', 'int32', 'int64'))}, {_type(rng, message, maps=False)}>"
    return rng.choice(SCALARS)


def _field(rng: random.Random, message: _Message, tag: int, file: _File) -> _Field:
    out = _Field(f"f{tag}", tag, _type(rng, message))
    if out.type.startswith("map<"):
        return out
    if rng.random() < 0.25:
        out.oneof = rng.choice(("o1", "o2"))
    elif file.syntax == "proto2":
        out.label = rng.choice(("optional", "optional", "repeated", "required"))
    else:
        out.label = rng.choice(("", "", "optional", "repeated"))
    return out


def _all(messages: list[_Message]) -> list[_Message]:
    return [each for message in messages for each in (message, *_all(message.nested))]


def _mutate(rng: random.Random, file: _File) -> None:
    message = rng.choice(_all(file.messages))
    roll = rng.random()
    if roll < 0.15:
        free = [tag for tag in range(1, 10) if all(each.tag != tag for each in message.fields)]
        if free:
            message.fields.append(_field(rng, message, rng.choice(free), file))
    elif roll < 0.3 and message.fields:
        message.fields.remove(rng.choice(message.fields))
    elif roll < 0.5 and message.fields:
        each = rng.choice(message.fields)
        if not each.type.startswith("map<"):
            each.type = _type(rng, message, maps=False)
    elif roll < 0.65 and message.fields:
        _move(rng, rng.choice(message.fields), file)
    elif roll < 0.75 and message.fields:
        rng.choice(message.fields).name = f"g{rng.randint(0, 99)}"
    elif roll < 0.82 and message.enums:
        message.enums["E"] = sorted({0, *rng.sample(range(1, 6), rng.randint(0, 3))})
    elif roll < 0.88:
        file.messages.append(_message(rng, f"X{rng.randint(0, 9)}", file, 2))
        if len({each.name for each in file.messages}) < len(file.messages):
            file.messages.pop()
    elif roll < 0.93:
        file.messages.reverse()
    elif roll < 0.96 and len(file.messages) > 1:
        file.messages.pop()
    else:
        file.package = rng.choice(("", "p", "p.q"))


def _move(rng: random.Random, each: _Field, file: _File) -> None:
    """Move a field into a oneof, out of it, or give it another label."""
    if each.type.startswith("map<"):
        return
    if each.oneof:
        each.oneof = rng.choice(("", "o1", "o2", "o3"))
        each.label = "optional" if file.syntax == "proto2" and not each.oneof else ""
    elif rng.random() < 0.5:
        each.oneof, each.label = rng.choice(("o1", "o2", "o3")), ""
    else:
        labels = (
            ("optional", "repeated", "required") if file.syntax == "proto2" else ("", "optional", "repeated")
        )
        each.label = rng.choice(labels)


def _text(file: _File) -> str:
    out = [f'syntax = "{file.syntax}";']
    if file.package:
        out.append(f"package {file.package};")
    return "\n".join(out + [_message_text(each) for each in file.messages]) + "\n"


def _message_text(message: _Message) -> str:
    lines = [f"message {message.name} {{"]
    free = [each for each in message.fields if not each.oneof]
    lines += [f"{each.label} {each.type} {each.name} = {each.tag};".strip() for each in free]
    for oneof in dict.fromkeys(each.oneof for each in message.fields if each.oneof):
        members = [f"{each.type} {each.name} = {each.tag};" for each in message.fields if each.oneof == oneof]
        lines.append(f"oneof {oneof} {{ {' '.join(members)} }}")
    lines += [_message_text(each) for each in message.nested]
    for name, values in message.enums.items():
        lines.append(f"enum {name} {{ " + " ".join(f"V{value} = {value};" for value in values) + " }")
    return "\n".join([*lines, "}"])
