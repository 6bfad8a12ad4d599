"""The page about the clients' classes, made from their signatures and docstrings: docs/client-api.md."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import ottla.client as public
from ottla.client import admin, metadata, offsets

HEAD = """\
# Client API

Every class and method of the Python clients. Guide: [Python clients](clients.md). Import from `ottla.client`,
and types of the admin client from `ottla.client.admin`. Made from the code by `make docs`.
"""
TWINS = (("Producer", "AsyncProducer"), ("Consumer", "AsyncConsumer"), ("Admin", "AsyncAdmin"))
SEEN_IN_ANSWERS = (metadata.TopicInfo, metadata.PartitionInfo, offsets.OffsetAndTime)


def client_api_page() -> str:
    """Return the page."""
    parts = [HEAD]
    for name, twin in TWINS:
        parts += _client(getattr(public, name), getattr(public, twin))
    twins = {name for pair in TWINS for name in pair}
    rest = [getattr(public, name) for name in public.__all__ if name not in twins]
    answers = [getattr(admin, name) for name in admin.__all__ if name not in twins]
    types = [each for each in dict.fromkeys([*rest, *answers, *SEEN_IN_ANSWERS]) if not _is_error(each)]
    parts += ["## Parameters and results\n", *(_type(each) for each in _sorted(types))]
    errors = [each for each in rest if _is_error(each)]
    parts += ["## Errors\n", *(f"- **{each.__name__}**: {_first_line(each)}" for each in _sorted(errors))]
    parts.append("\nA protocol error is raised as the class of its code: [protocol errors](errors.md).")
    return "\n".join(parts).rstrip() + "\n"


def _client(sync: type, twin: type) -> Iterator[str]:
    yield f"## {sync.__name__} and {twin.__name__}\n"
    yield inspect.cleandoc(sync.__doc__ or "") + "\n"
    methods, others = dict(_methods(sync)), dict(_methods(twin))
    awaited = [name for name, each in others.items() if _is_awaited(each)]
    plain = [name for name in others if name not in awaited and name in methods]
    yield f"`{twin.__name__}` is the same for asyncio, used with `async with`; its methods are awaited."
    if plain:
        yield "These are not: " + ", ".join(f"`{each}`" for each in plain) + "."
    yield ""
    for name, each in methods.items():
        yield _method(name, each)
    for name in (each for each in others if each not in methods):
        word = "await " if name in awaited else ""
        yield _method(f"{twin.__name__}.{name}", others[name], word)


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    seen = set()
    for owner in cls.__mro__[:-1]:
        for name, member in vars(owner).items():
            if name.startswith("_") or name in seen or not _is_documented(member):
                continue
            seen.add(name)
            yield name, member


def _is_documented(member: Any) -> bool:
    return isinstance(member, property) or inspect.isfunction(member)


def _is_awaited(member: Any) -> bool:
    return inspect.iscoroutinefunction(member)


def _method(name: str, member: Any, word: str = "") -> str:
    if isinstance(member, property):
        return f"### `{name}`\n\n{inspect.cleandoc(member.__doc__ or '')}\n"
    signature = inspect.signature(member)
    parameters = [each for at, each in enumerate(signature.parameters.values()) if at]
    shown = _plain(str(signature.replace(parameters=parameters)))
    text = inspect.cleandoc(member.__doc__ or "")
    return f"### `{name}`\n\n```python\n{word}{name.rpartition('.')[2]}{shown}\n```\n\n{text}\n"


def _type(kind: Any) -> str:
    lines = [f"### {kind.__name__}\n", inspect.cleandoc(_doc(kind)) + "\n"]
    if kind.__name__.endswith("Options"):
        return lines[0] + f"\n{inspect.cleandoc(_doc(kind))} See the signature of its client.\n"
    names = [each.name for each in fields(kind)] if is_dataclass(kind) else getattr(kind, "_fields", ())
    hints = getattr(kind, "__annotations__", {})
    lines += [f"- `{name}: {_plain(str(hints.get(name, '')))}`" for name in names]
    for name, member in _methods(kind):
        if isinstance(member, property):
            lines.append(f"- `{name}`: {_first_line(member)}")
        elif not names and inspect.isfunction(member):
            lines.append(f"- `{name}{_plain(str(inspect.signature(member)))}`: {_first_line(member)}")
    return "\n".join(lines) + "\n"


def _doc(kind: Any) -> str:
    return kind.__doc__ or ""


def _first_line(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").partition("\n")[0]


def _plain(signature: str) -> str:
    return re.sub(r"'|(?:[a-z_]+\.)+(?=[A-Z])", "", signature).replace("(self, ", "(").replace("(self)", "()")


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def _sorted(kinds: list[Any]) -> list[Any]:
    return sorted(kinds, key=lambda each: str(each.__name__))
