"""`spark-pipeline.yml`: the fields of Spark's Declarative Pipelines, and no others. Pure code.

    name: shop
    storage: file:///data/shop
    configuration:
      spark.sql.shuffle.partitions: "4"
    libraries:
      - glob:
          include: transformations/**

The file is read here rather than by a YAML library: it has seven fields, and pip should not bring a parser
for them. What is beyond mappings, lists and scalars (anchors, flow collections with content, block texts) is
refused by line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.common.near_names import did_you_mean
from ottla.spark.pipelines.problems import PipelineProblem, Place

FIELDS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")


@dataclass(frozen=True)
class Spec:
    """What a spec file says; without one, all of it is at its default."""

    name: str = ""
    storage: str = ""
    catalog: str = ""
    database: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()


def read_spec(text: str, file: str) -> Spec:
    """Return what a spec file says; refuse unknown fields with the nearest known one."""
    found = _Yaml(text, file).document()
    for name in found:
        if name not in FIELDS:
            raise PipelineProblem(
                f"there is no field {name!r}",
                *did_you_mean(name, FIELDS),
                f"a spec has: {', '.join(FIELDS)}",
                place=Place(file, _line_of(text, name)),
            )
    configuration = found.get("configuration") or {}
    if not isinstance(configuration, dict):
        raise PipelineProblem("configuration is a list of `key: value`", place=Place(file))
    return Spec(
        name=_text(found, "name", file),
        storage=_text(found, "storage", file),
        catalog=_text(found, "catalog", file),
        database=_text(found, "database", file) or _text(found, "schema", file),
        configuration={key: str(value) for key, value in configuration.items()},
        libraries=tuple(_library(entry, file) for entry in found.get("libraries") or ()),
    )


def _library(entry: Any, file: str) -> str:
    glob = entry.get("glob") if isinstance(entry, dict) else None
    include = glob.get("include") if isinstance(glob, dict) else None
    if not isinstance(include, str):
        raise PipelineProblem(
            "a library is written `- glob: {include}` on lines of their own",
            "- glob:",
            "    include: transformations/**",
            place=Place(file),
        )
    return include


def _text(found: Mapping[str, Any], name: str, file: str) -> str:
    value = found.get(name) or ""
    if not isinstance(value, str):
        raise PipelineProblem(f"{name} is a text", place=Place(file))
    return value


def _line_of(text: str, name: str) -> int:
    lines = text.splitlines()
    return next((number for number, line in enumerate(lines, 1) if line.startswith(name)), 0)


@dataclass
class _Line:
    number: int
    indent: int
    text: str


class _Yaml:
    """Mappings, lists and scalars, by indentation."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._lines = [
            _Line(number, len(line) - len(line.lstrip(" ")), line.strip())
            for number, line in enumerate(map(_without_comment, text.splitlines()), 1)
            if line.strip() and line.strip() != "---"
        ]

    def document(self) -> dict[str, Any]:
        found = self._block(0) if self._lines else {}
        if self._lines:
            raise self._problem("this line does not fit the indentation of those above", self._lines[0])
        if not isinstance(found, dict):
            raise PipelineProblem("a spec is made of `field: value` lines", place=Place(self._file, 1))
        return found

    def _block(self, least: int) -> Any:
        first = self._lines[0]
        if first.indent < least:
            return None
        return (
            self._list(first.indent)
            if first.text.startswith("- ") or first.text == "-"
            else self._mapping(first.indent)
        )

    def _list(self, indent: int) -> list[Any]:
        items = []
        while self._lines and self._lines[0].indent == indent and self._lines[0].text.startswith("-"):
            line = self._lines[0]
            rest = line.text[1:].lstrip()
            if not rest:
                self._lines.pop(0)
                items.append(self._block(indent + 1) if self._lines else None)
            elif ":" in rest and rest[0] not in "'\"":
                line.indent, line.text = line.indent + len(line.text) - len(rest), rest
                items.append(self._mapping(line.indent))
            else:
                items.append(self._scalar(rest, self._lines.pop(0)))
        return items

    def _mapping(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._lines and self._lines[0].indent == indent and not self._lines[0].text.startswith("- "):
            line = self._lines.pop(0)
            key, colon, value = line.text.partition(": ")
            if not colon and not line.text.endswith(":"):
                raise self._problem("a `field: value` is expected here", line)
            name = self._scalar(key.removesuffix(":") if not colon else key, line)
            if name in found:
                raise self._problem(f"{name!r} is given twice", line)
            if value.strip():
                found[name] = self._scalar(value.strip(), line)
            else:
                # A list may stand at the indentation of its key.
                is_list = bool(self._lines) and self._lines[0].text.startswith("-")
                found[name] = self._block(indent + (0 if is_list else 1)) if self._lines else None
        return found

    def _scalar(self, text: str, line: _Line) -> Any:
        if text[0] in "'\"":
            if len(text) < 2 or text[-1] != text[0]:
                raise self._problem("the quotation mark is not closed", line)
            return text[1:-1]
        if text in ("{}", "[]"):
            return {} if text == "{}" else []
        if text in ("null", "~"):
            return None
        if text[0] in "{[&*!|>%@`":
            raise self._problem(
                f"{text[0]!r} is more YAML than a spec needs: write it on lines of its own", line
            )
        return text

    def _problem(self, what: str, line: _Line) -> PipelineProblem:
        return PipelineProblem(what, place=Place(self._file, line.number))


def _without_comment(line: str) -> str:
    quote = ""
    for index, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (index == 0 or line[index - 1] in " \t"):
            return line[:index]
    return line
