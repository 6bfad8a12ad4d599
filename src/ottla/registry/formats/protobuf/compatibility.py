"""Compares two Protobuf schemas: can the new one read messages that the old one wrote?

The rules are those of the wire format, as Confluent applies them: fields are compared by number, whatever
their oneof; their types may change within a group that is encoded alike (int32, int64, uint32, uint64, bool
and enums; string and bytes; ...). Services and groups do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.registry.formats.limits import MAX_DEPTH, MAX_DIFFERENCES, Budget, TooComplex
from ottla.registry.formats.protobuf.elements import SCALARS, Enum, Field, Message, OneOf, ProtoFile
from ottla.registry.formats.protobuf.type_table import Scope, TypeInfo, TypeTable

COMPATIBLE = frozenset(
    [
        "MESSAGE_ADDED",
        "MESSAGE_MOVED",
        "ENUM_ADDED",
        "ENUM_REMOVED",
        "ENUM_CONST_ADDED",
        "ENUM_CONST_CHANGED",
        "ENUM_CONST_REMOVED",
        "FIELD_ADDED",
        "FIELD_REMOVED",
        "FIELD_NAME_CHANGED",
        "FIELD_STRING_OR_BYTES_LABEL_CHANGED",
        "ONEOF_ADDED",
        "ONEOF_REMOVED",
        "ONEOF_FIELD_ADDED",
        "ONEOF_FIELD_MOVED_TO_TOP_LEVEL",
    ]
)
_TEXTS = {
    "PACKAGE_CHANGED": "The package at '{path}' in the {new} schema does not match the "
    "package in the {old} schema",
    "MESSAGE_REMOVED": "The {new} schema is missing a MESSAGE type at path '{path}' in the {old} schema",
    "FIELD_KIND_CHANGED": "The type of a field at path '{path}' in the {new} schema does "
    "not match the {old} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The kind of a SCALAR field at path '{path}' in the {new} "
    "schema does not match "
    "its kind in the {old} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type of a MESSAGE field at path '{path}' in the {new} "
    "schema does not match "
    "its type in the {old} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label for a NUMERIC field at path '{path}' in the "
    "{new} schema does not "
    "match its label in the {old} schema",
    "REQUIRED_FIELD_ADDED": "A required field  at path '{path}' in the {new} schema is "
    "missing in the {old} schema",
    "REQUIRED_FIELD_REMOVED": "The {new} schema is missing a required field at path: "
    "'{path}' in the {old} schema",
    "ONEOF_FIELD_REMOVED": "The {new} schema is missing a oneof field at path '{path}' in the {old} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path '{path}' in the {new} schema are "
    "outside a oneof in the {old} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field in the oneof at path '{path}' in the {new} "
    "schema is outside an "
    "existing oneof in the {old} schema",
}
_SCALAR_KINDS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "GENERAL_NUMBER"),
    **dict.fromkeys(("sint32", "sint64"), "SIGNED_NUMBER"),
    **dict.fromkeys(("string", "bytes"), "STRING_OR_BYTES"),
    **dict.fromkeys(("fixed32", "sfixed32"), "FIXED32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "FIXED64"),
    "float": "FLOAT",
    "double": "DOUBLE",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference, at a path of names and numbers."""

    type: str
    path: tuple[str, ...]

    @property
    def pointer(self) -> str:
        """Return the path as text."""
        return "#/" + "/".join(self.path)

    def message(self, new: str, old: str) -> str:
        """Return Confluent's text."""
        text = _TEXTS.get(self.type, "").format(path=self.pointer, new=new, old=old)
        return f'{{errorType:"{self.type}", description:"{text}"}}'


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the two schemas: the file and the types that it can name."""

    file: ProtoFile
    types: TypeTable


def differences(original: Compared, update: Compared) -> list[Difference]:
    """Return what differs; the update is backward compatible if all of it is in `COMPATIBLE`."""
    return _Comparison(original, update).compare_files()


def messages(original: Compared, update: Compared, words: tuple[str, str]) -> list[str]:
    """Return Confluent's messages for what is incompatible; `words` name the update and the original."""
    try:
        found = differences(original, update)
    except TooComplex as error:
        return [f"Unexpected exception during compatibility check: {error}"]
    return [each.message(*words) for each in found if each.type not in COMPATIBLE]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the comparison is: the path for messages, and the scopes in which names are resolved."""

    path: tuple[str, ...]
    original: Scope
    update: Scope

    def at(self, *parts: str) -> _Place:
        return _Place((*self.path, *parts), self.original, self.update)

    def within(self, name: str) -> _Place:
        return _Place((*self.path, name), self.original.within(name), self.update.within(name))


class _Comparison:
    def __init__(self, original: Compared, update: Compared) -> None:
        self._original = original
        self._update = update
        self._budget = Budget()
        self._depth = 0
        self._local = {*_ids(original.file.types), *_ids(update.file.types)}
        self._found: list[Difference] = []
        self._left = [MAX_DIFFERENCES, MAX_DIFFERENCES]
        self._open: set[int] = set()
        self._referred: dict[tuple[int, int], bool] = {}

    def _add(self, kind: str, place: _Place) -> None:
        compatible = kind in COMPATIBLE
        self._left[compatible] -= 1
        if self._left[compatible] >= 0:
            self._found.append(Difference(kind, place.path))

    def compare_files(self) -> list[Difference]:
        original, update = self._original.file, self._update.file
        place = _Place((), Scope(original.package or ""), Scope(update.package or ""))
        if original.package != update.package:
            self._add("PACKAGE_CHANGED", place)
        self._compare_types(original.types, update.types, place)
        return self._found

    def _compare_types(
        self, original: list[Message | Enum], update: list[Message | Enum], place: _Place
    ) -> None:
        before, after = _messages(original), _messages(update)
        for name in dict.fromkeys([*before, *after]):
            here = place.within(name)
            if name not in after:
                if not before[name][1].is_map_entry:
                    self._add("MESSAGE_REMOVED", here)
            elif name not in before:
                if not after[name][1].is_map_entry:
                    self._add("MESSAGE_ADDED", here)
            else:
                self._compare_messages(before[name][1], after[name][1], here)
                if before[name][0] != after[name][0]:
                    self._add("MESSAGE_MOVED", here)
        enums_before = {each.name: each for each in original if isinstance(each, Enum)}
        enums_after = {each.name: each for each in update if isinstance(each, Enum)}
        for name in dict.fromkeys([*enums_before, *enums_after]):
            here = place.within(name)
            if name not in enums_after:
                self._add("ENUM_REMOVED", here)
            elif name not in enums_before:
                self._add("ENUM_ADDED", here)
            else:
                self._compare_enums(enums_before[name], enums_after[name], here)

    def _compare_enums(self, original: Enum, update: Enum, place: _Place) -> None:
        before = {each.tag: each.name for each in original.values}
        after = {each.tag: each.name for each in update.values}
        for tag in dict.fromkeys([*before, *after]):
            if tag not in after:
                self._add("ENUM_CONST_REMOVED", place.at(str(tag)))
            elif tag not in before:
                self._add("ENUM_CONST_ADDED", place.at(str(tag)))
            elif before[tag] != after[tag]:
                self._add("ENUM_CONST_CHANGED", place.at(str(tag)))

    def _compare_messages(self, original: Message, update: Message, place: _Place) -> None:
        self._budget.count()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooComplex(f"references are nested deeper than {MAX_DEPTH} levels")
        if id(original) not in self._open:
            self._open.add(id(original))
            self._compare_fields(original, update, place)
            self._compare_types(original.types, update.types, place)
            self._open.discard(id(original))
        self._depth -= 1

    def _compare_fields(self, original: Message, update: Message, place: _Place) -> None:
        before = {each.tag: (each, oneof) for each, oneof in original.all_fields()}
        after = {each.tag: (each, oneof) for each, oneof in update.all_fields()}
        self._compare_oneofs(original, update, before, after, place)
        kept = {each.name for each in update.oneofs}
        deleted = {
            each.name
            for each in original.oneofs
            if each.name not in kept and not any(member.tag in after for member in each.fields)
        }
        for tag in sorted(before.keys() | after.keys()):
            old, new = before.get(tag), after.get(tag)
            if new is None:
                assert old is not None
                self._removed(*old, deleted, place)
            elif old is None:
                self._added(*new, place)
            else:
                if old[1] is not None and new[1] is None:
                    self._add("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", place.at(str(tag)))
                here = place.at(new[1].name, str(tag)) if new[1] is not None else place.at(str(tag))
                self._compare_field(old[0], new[0], here)

    def _compare_oneofs(
        self,
        original: Message,
        update: Message,
        before: dict[int, tuple[Field, OneOf | None]],
        after: dict[int, tuple[Field, OneOf | None]],
        place: _Place,
    ) -> None:
        """Fields that were independent must not become members of one oneof: at most one could be set."""
        for oneof in update.oneofs:
            known = [before[each.tag] for each in oneof.fields if each.tag in before]
            moved_in = sum(old_oneof is None for _, old_oneof in known)
            groups = moved_in + len({old_oneof.name for _, old_oneof in known if old_oneof is not None})
            if groups > 1:
                kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if moved_in > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
                self._add(kind, place.at(oneof.name))
        names_before = {each.name for each in original.oneofs}
        names_after = {each.name for each in update.oneofs}
        for name in sorted(names_before ^ names_after):
            self._add("ONEOF_REMOVED" if name in names_before else "ONEOF_ADDED", place.at(name))

    def _removed(self, each: Field, oneof: OneOf | None, deleted: set[str], place: _Place) -> None:
        if oneof is not None:
            if oneof.name not in deleted:
                self._add("ONEOF_FIELD_REMOVED", place.at(oneof.name, str(each.tag)))
        else:
            kind = "REQUIRED_FIELD_REMOVED" if each.label == "required" else "FIELD_REMOVED"
            self._add(kind, place.at(str(each.tag)))

    def _added(self, each: Field, oneof: OneOf | None, place: _Place) -> None:
        if oneof is not None:
            self._add("ONEOF_FIELD_ADDED", place.at(oneof.name, str(each.tag)))
        else:
            kind = "REQUIRED_FIELD_ADDED" if each.label == "required" else "FIELD_ADDED"
            self._add(kind, place.at(str(each.tag)))

    def _compare_field(self, original: Field, update: Field, place: _Place) -> None:
        if original.name != update.name:
            self._add("FIELD_NAME_CHANGED", place)
        self._compare_field_types(original.type, update.type, (original.label, update.label), place)

    def _compare_field_types(
        self, original: str, update: str, labels: tuple[str | None, str | None], place: _Place
    ) -> None:
        old = self._original.types.find(original, place.original) if not original.startswith("map<") else None
        new = self._update.types.find(update, place.update) if not update.startswith("map<") else None
        original = (old.map_type if old is not None else None) or original
        update = (new.map_type if new is not None else None) or update
        kind = _kind(original, old)
        if kind != _kind(update, new):
            self._add("FIELD_KIND_CHANGED", place)
        elif kind == "SCALAR":
            self._compare_scalars(_scalar_kind(original, old), _scalar_kind(update, new), labels, place)
        elif kind == "MAP":
            for left, right in zip(_map_types(original), _map_types(update), strict=True):
                self._compare_field_types(left, right, (None, None), place)
        elif old is None or new is None:
            if original != update:
                self._add("FIELD_NAMED_TYPE_CHANGED", place)
        else:
            self._compare_named_types(old, new, place)

    def _compare_scalars(
        self, original: str, update: str, labels: tuple[str | None, str | None], place: _Place
    ) -> None:
        if original != update:
            self._add("FIELD_SCALAR_KIND_CHANGED", place)
        elif labels[0] and labels[1] and labels[0] != labels[1]:
            word = "STRING_OR_BYTES" if original == "STRING_OR_BYTES" else "NUMERIC"
            self._add(f"FIELD_{word}_LABEL_CHANGED", place)

    def _compare_named_types(self, old: TypeInfo, new: TypeInfo, place: _Place) -> None:
        if old.local_name != new.local_name:
            self._add("FIELD_NAMED_TYPE_CHANGED", place)
            return
        if id(old.type) in self._local and id(new.type) in self._local:
            return  # compared among the types of the file
        key = (id(old.type), id(new.type))
        if key not in self._referred:
            self._referred[key] = True  # while it is being compared
            messages_of = (old.type, new.type)
            if isinstance(messages_of[0], Message) and isinstance(messages_of[1], Message):
                parts = tuple(old.local_name.split("."))
                there = _Place(parts, Scope(old.package, parts), Scope(new.package, parts))
                count = len(self._found)
                self._compare_messages(messages_of[0], messages_of[1], there)
                self._referred[key] = all(each.type in COMPATIBLE for each in self._found[count:])
        if not self._referred[key]:
            self._add("FIELD_NAMED_TYPE_CHANGED", place)


def _ids(types: list[Message | Enum]) -> Iterator[int]:
    """Yield the identity of every type that is declared here or within."""
    for each in types:
        yield id(each)
        if isinstance(each, Message):
            yield from _ids(each.types)


def _messages(types: list[Message | Enum]) -> dict[str, tuple[int, Message]]:
    found = [each for each in types if isinstance(each, Message)]
    return {each.name: (index, each) for index, each in enumerate(found)}


def _kind(name: str, info: TypeInfo | None) -> str:
    if name in SCALARS:
        return "SCALAR"
    if name.startswith("map<"):
        return "MAP"
    return "SCALAR" if info is not None and isinstance(info.type, Enum) else "MESSAGE"


def _scalar_kind(name: str, info: TypeInfo | None) -> str:
    return "GENERAL_NUMBER" if info is not None and isinstance(info.type, Enum) else _SCALAR_KINDS[name]


def _map_types(name: str) -> tuple[str, str]:
    key, _, value = name.removeprefix("map<").removesuffix(">").partition(",")
    return key.strip(), value.strip()
