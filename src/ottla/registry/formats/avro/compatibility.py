"""Decides whether a reader's Avro schema can read what a writer's schema wrote.

The rules are those of the Avro specification as Avro's Java library applies them, in its order and with its
locations, so that verdicts and messages equal Confluent's:

- names of records, enums and fixed are compared without their namespace; the reader's aliases count;
- a field that only the reader has needs a default;
- int may become long, float or double, long float or double, float double; string and bytes are
  interchangeable;
- an enum of the reader needs all symbols of the writer, or a default;
- each branch of a writer's union must be readable; a reader's union needs one branch that reads.

A pair of types that is being compared further up counts as compatible, which ends recursion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass

from ottla.registry.formats.avro.model import NAMED, AvroType, Field
from ottla.registry.formats.limits import MAX_DIFFERENCES, Budget, TooComplex
from ottla.registry.formats.trampoline import run

_PROMOTIONS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason why the reader cannot read."""

    type: str
    path: str
    info: str

    def message(self, reader: str, writer: str) -> str:
        """Return Confluent's text; `reader` and `writer` are the words "new" and "old", or the reverse."""
        path, info = self.path, self.info
        text = {
            "FIXED_SIZE_MISMATCH": f"The size of FIXED type field at path '{path}' in the {reader} schema "
            f"does not match with the {writer} schema",
            "TYPE_MISMATCH": f"The type (path '{path}') of a field in the {reader} schema does not match "
            f"with the {writer} schema",
            "NAME_MISMATCH": f"The name of the schema has changed (path '{path}')",
            "MISSING_ENUM_SYMBOLS": f"The {reader} schema is missing enum symbols '{info}' at path '{path}' "
            f"in the {writer} schema",
            "MISSING_UNION_BRANCH": f"The {reader} schema is missing a type inside a union field at path "
            f"'{path}' in the {writer} schema",
            "READER_FIELD_MISSING_DEFAULT_VALUE": f"The field '{info}' at path '{path}' in the {reader} "
            f"schema has no default value and is missing in the {writer} schema",
        }[self.type]
        return f"{{errorType:'{self.type}', description:'{text}', additionalInfo:'{info}'}}"


class AmbiguousField(Exception):
    """Raised when a reader's field, by its aliases, matches several of the writer's."""


Found = tuple[Incompatibility, ...]
Path = tuple[str, ...]
Pair = tuple[AvroType, AvroType, Path]
Steps = Generator[Pair, Found, Found]


def incompatibilities(reader: AvroType, writer: AvroType) -> Found:
    """Return why `reader` cannot read what `writer` wrote; nothing if it can."""
    root: Pair = (reader, writer, ("",))
    return run(_Comparison().start, root)


_Index = defaultdict[tuple[str, str], list[int]]
"""The branches of a union by kind and by name or alias; by the empty name, those that are not of the kind."""


class _Comparison:
    def __init__(self) -> None:
        self._results: dict[tuple[int, int], Found | None] = {}  # None: being compared
        self._budget = Budget()
        self._by_name: dict[int, _Index] = {}

    def start(self, pair: Pair) -> Found | Steps:
        """Return what is known of a pair, or the steps that compare it."""
        reader, writer, _ = pair
        key = (id(reader), id(writer))
        if key in self._results:
            return self._results[key] or ()
        self._budget.count()
        self._results[key] = None
        return self._compare(key, *pair)

    def _compare(self, key: tuple[int, int], reader: AvroType, writer: AvroType, path: Path) -> Steps:
        found = (yield from self._calculate(reader, writer, path))[:MAX_DIFFERENCES]
        self._results[key] = found
        return found

    def _calculate(self, reader: AvroType, writer: AvroType, path: Path) -> Steps:
        if reader.kind != writer.kind:
            return (yield from self._different_kinds(reader, writer, path))
        kind = reader.kind
        if kind in ("array", "map"):
            assert reader.items is not None
            assert writer.items is not None
            inner = "items" if kind == "array" else "values"
            return (yield reader.items, writer.items, (*path, inner))
        if kind == "union":
            return (yield from self._unions(reader, writer, path))
        if kind == "record":
            fields = yield from self._fields(reader, writer, path)
            return _names(reader, writer, path) + fields
        if kind == "enum":
            return _names(reader, writer, path) + _symbols(reader, writer, path)
        if kind == "fixed":
            return _names(reader, writer, path) + _sizes(reader, writer, path)
        return ()

    def _unions(self, reader: AvroType, writer: AvroType, path: Path) -> Steps:
        found = []
        for index, branch in enumerate(writer.branches):
            if (yield reader, branch, ("",)):
                found.append(_missing_branch(branch, (*path, str(index))))
        return tuple(found)

    def _different_kinds(self, reader: AvroType, writer: AvroType, path: Path) -> Steps:
        if writer.kind == "union":
            found: list[Incompatibility] = []
            for index, branch in enumerate(writer.branches):
                found += yield reader, branch, (*path, str(index))
            return tuple(found)
        if reader.kind == "union":
            for branch in self._branches_for(reader, writer):
                if not (yield branch, writer, ("",)):
                    return ()
            return (_missing_branch(writer, path),)
        if writer.kind in _PROMOTIONS.get(reader.kind, ()):
            return ()
        info = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
        return (_incompatibility("TYPE_MISMATCH", path, info),)

    def _branches_for(self, union: AvroType, writer: AvroType) -> list[AvroType]:
        """Return the branches to compare with a type: those of its kind only if they have its name."""
        if writer.kind not in NAMED:
            return union.branches
        index = self._by_name.get(id(union))
        if index is None:
            index = self._by_name[id(union)] = _index(union)
        found = {
            *index[writer.kind, ""],
            *index[writer.kind, writer.name],
            *index[writer.kind, writer.full_name],
        }
        return [
            union.branches[number]
            for number in sorted(found)
            if union.branches[number].kind != writer.kind or _has_name_of(union.branches[number], writer)
        ]

    def _fields(self, reader: AvroType, writer: AvroType, path: Path) -> Steps:
        found: list[Incompatibility] = []
        by_name = {each.name: each for each in writer.fields}
        for index, each in enumerate(reader.fields):
            here = (*path, "fields", str(index))
            other = _writer_field(each, by_name, writer)
            if other is not None:
                found += yield each.type, other.type, (*here, "type")
            elif not each.has_default:
                if each.type.kind == "enum" and each.type.symbol_default is not None:
                    found += yield each.type, writer, (*here, "type")
                else:
                    found.append(_incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", here, each.name))
            if len(found) > MAX_DIFFERENCES:
                break
        return tuple(found)


def _writer_field(each: Field, by_name: dict[str, Field], writer: AvroType) -> Field | None:
    names = [name for name in (each.name, *each.aliases) if name in by_name]
    if len(names) > 1:
        raise AmbiguousField(
            f"Reader record field {each.name} matches multiple fields in writer record schema "
            f"{writer.full_name}"
        )
    return by_name[names[0]] if names else None


def _index(union: AvroType) -> _Index:
    found: _Index = defaultdict(list)
    for number, each in enumerate(union.branches):
        for kind in NAMED - {each.kind}:
            found[kind, ""].append(number)
        if each.kind in NAMED:
            for name in {each.name, *each.aliases}:
                found[each.kind, name].append(number)
    return found


def _has_name_of(reader: AvroType, writer: AvroType) -> bool:
    return reader.name == writer.name or writer.full_name in reader.aliases


def _names(reader: AvroType, writer: AvroType, path: Path) -> Found:
    if _has_name_of(reader, writer):
        return ()
    return (_incompatibility("NAME_MISMATCH", (*path, "name"), f"expected: {writer.full_name}"),)


def _symbols(reader: AvroType, writer: AvroType, path: Path) -> Found:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.symbol_default is not None:
        return ()
    return (_incompatibility("MISSING_ENUM_SYMBOLS", (*path, "symbols"), f"[{', '.join(missing)}]"),)


def _sizes(reader: AvroType, writer: AvroType, path: Path) -> Found:
    if reader.size == writer.size:
        return ()
    info = f"expected: {writer.size}, found: {reader.size}"
    return (_incompatibility("FIXED_SIZE_MISMATCH", (*path, "size"), info),)


def _missing_branch(writer: AvroType, path: Path) -> Incompatibility:
    return _incompatibility(
        "MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {writer.kind.upper()}"
    )


def _incompatibility(kind: str, path: tuple[str, ...], info: str) -> Incompatibility:
    return Incompatibility(kind, "/" + "/".join(path[1:]), info)


def messages(reader: AvroType, writer: AvroType, words: tuple[str, str]) -> list[str]:
    """Return Confluent's messages for a pair; `words` name the reader and the writer."""
    try:
        return [each.message(*words) for each in incompatibilities(reader, writer)]
    except (AmbiguousField, TooComplex) as error:
        return [f"Unexpected exception during compatibility check: {error}"]
