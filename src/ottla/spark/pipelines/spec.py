"""`spark-pipeline.yml`: the fields of Spark's Declarative Pipelines, and no others. Pure code.

    name: shop
    storage: file:///data/shop
    configuration:
      spark.sql.shuffle.partitions: "4"
    libraries:
      - glob:
          include: transformations/**

PyYAML parses the file into nodes, each with its line. The nodes are read here instead of the values that
`yaml.safe_load` would make of them, for three reasons: an error names the line; a field that is given twice
is refused, where `safe_load` keeps the last one; and a scalar is the text that the user wrote, so that
`spark.sql.ansi.enabled: true` is set to `true`, not to Python's `True`, and a version `1.10` stays `1.10`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.common.near_names import did_you_mean
from ottla.spark.pipelines.problems import PipelineProblem, Place

if TYPE_CHECKING:
    from yaml.nodes import Node

FIELDS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")

_NULL = "tag:yaml.org,2002:null"


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
    fields = _Fields(_parse(text, file), file)
    return Spec(
        name=fields.text("name"),
        storage=fields.text("storage"),
        catalog=fields.text("catalog"),
        database=fields.text("database") or fields.text("schema"),
        configuration=fields.configuration(),
        libraries=fields.libraries(),
    )


def _parse(text: str, file: str) -> Node | None:
    """Return the root node of the document, None if it is empty."""
    try:
        import yaml
    except ImportError:
        raise PipelineProblem(
            "reading a spec needs PyYAML", "pip install 'ottla[spark]'", place=Place(file)
        ) from None
    try:
        # Scalars stay text; an alias refers to the node of its anchor.
        root: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        place = Place(file, 0 if mark is None else mark.line + 1)
        raise PipelineProblem(f"this is not YAML: {reason}", place=place) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise PipelineProblem(f"this is not YAML: {error}", place=Place(file)) from None
    return root


class _Fields:
    """The fields of a spec: the nodes of one mapping, by name."""

    def __init__(self, root: Node | None, file: str) -> None:
        self._file = file
        self._nodes = {} if root is None else self._mapping(root, "a spec is made of `field: value` lines")
        for name, (key, _) in self._nodes.items():
            if name not in FIELDS:
                raise PipelineProblem(
                    f"there is no field {name!r}",
                    *did_you_mean(name, FIELDS),
                    f"a spec has: {', '.join(FIELDS)}",
                    place=self._place(key),
                )

    def text(self, name: str) -> str:
        """Return a field that is one text; empty if it is not given."""
        _, node = self._nodes.get(name, (None, None))
        return "" if node is None else self._scalar(node, f"{name} is a text") or ""

    def configuration(self) -> dict[str, str]:
        """Return the Spark settings, as they are written."""
        what = "configuration is a list of `key: value`"
        _, node = self._nodes.get("configuration", (None, None))
        if node is None or _is_null(node):
            return {}
        settings = {
            key: self._scalar(value, f"{key} is one value")
            for key, (_, value) in self._mapping(node, what).items()
        }
        return {key: value for key, value in settings.items() if value is not None}

    def libraries(self) -> tuple[str, ...]:
        """Return the globs of the files with definitions."""
        _, node = self._nodes.get("libraries", (None, None))
        if node is None or _is_null(node):
            return ()
        if node.id != "sequence":
            raise self._not_a_library(node)
        return tuple(self._library(entry) for entry in node.value)

    def _library(self, entry: Node) -> str:
        node = entry
        for name in ("glob", "include"):
            found = self._mapping(node, "") if node.id == "mapping" else {}
            if set(found) != {name}:
                raise self._not_a_library(entry)
            _, node = found[name]
        include = self._scalar(node, "include is one path") if node.id == "scalar" else None
        if not include:
            raise self._not_a_library(entry)
        return include

    def _not_a_library(self, node: Node) -> PipelineProblem:
        hints = ("- glob:", "    include: transformations/**")
        return PipelineProblem("a library is written as a glob", *hints, place=self._place(node))

    def _mapping(self, node: Node, what: str) -> dict[str, tuple[Node, Node]]:
        """Return the key and the value of each entry, by name."""
        if node.id != "mapping":
            raise PipelineProblem(what, place=self._place(node))
        found: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            name = self._scalar(key, "a field's name is a text") or ""
            if name in found:
                raise PipelineProblem(f"{name!r} is given twice", place=self._place(key))
            found[name] = key, value
        return found

    def _scalar(self, node: Node, what: str) -> str | None:
        """Return the text of a scalar; None for `null`, `~` and nothing."""
        if node.id != "scalar":
            raise PipelineProblem(what, place=self._place(node))
        return None if _is_null(node) else str(node.value)

    def _place(self, node: Node) -> Place:
        return Place(self._file, node.start_mark.line + 1)


def _is_null(node: Node) -> bool:
    return bool(node.tag == _NULL)
