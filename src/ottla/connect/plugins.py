"""The plugins of a worker: connectors, converters, transforms, predicates; ours and the user's.

A user's connectors are found in the modules that `plugin.path` names: Python files, folders of them, or
installed modules.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ottla import __version__
from ottla.connect.converters.base import Converter
from ottla.connect.converters.plain import HEADER_CONVERTERS, PLAIN_CONVERTERS
from ottla.connect.converters.registry import REGISTRY_CONVERTERS
from ottla.connect.errors import ConnectError, WrongConfig
from ottla.connect.sdk import Connector, SinkConnector, SourceConnector
from ottla.connect.transforms.chain import PREDICATE_TYPES, TRANSFORMS, section

OWN_MODULES = tuple(
    f"ottla.connect.connectors.{each}"
    for each in (
        "datagen",
        "files",
        "postgres_source",
        "postgres_sink",
        "postgres_cdc",
        "http_sink",
        "mirror",
        "object_store",
        "search_sink",
        "iceberg_sink",
        "iceberg_source",
        "object_source",
        "delta_sink",
        "jdbc_source",
        "jdbc_sink",
    )
)
CONVERTERS: dict[str, type[Converter]] = {
    each.name: each for each in (*PLAIN_CONVERTERS, *REGISTRY_CONVERTERS)
}
HEADERS: dict[str, type[Converter]] = {each.name: each for each in HEADER_CONVERTERS}
DEFAULT_HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


@dataclass
class Plugins:
    """What a worker can run."""

    connectors: dict[str, type[Connector]] = field(default_factory=dict)
    """By full name."""

    @classmethod
    def load(cls, paths: Iterable[str] = ()) -> Plugins:
        """Import our connectors and the user's; raise ConnectError if a module of theirs fails."""
        found = cls()
        for name in OWN_MODULES:
            found.add_module(importlib.import_module(name))
        for path in paths:
            for module in _user_modules(path):
                found.add_module(module)
        return found

    def add_module(self, module: ModuleType) -> None:
        """Add the connectors that a module defines."""
        for _, each in inspect.getmembers(module, inspect.isclass):
            if not issubclass(each, SourceConnector) and not issubclass(each, SinkConnector):
                continue
            if each.__module__ == module.__name__ and not each.__name__.startswith("_"):
                self.connectors[each.class_name()] = each

    def connector(self, name: str | None) -> type[Connector]:
        """Return a connector by its full name, its simple name, or that without Connector at the end."""
        given = (name or "").strip()
        if given in self.connectors:
            return self.connectors[given]
        simple = given.rpartition(".")[2]
        for each in self.connectors.values():
            if simple in (each.__name__, f"{each.__name__}Connector"):
                return each
        raise WrongConfig("connector.class", name, self.unknown_text(given))

    def unknown_text(self, name: str) -> str:
        """Return what to say of a connector that there is not."""
        return (
            f"Failed to find any class that implements Connector and which name matches {name}, available "
            f"connectors are: {', '.join(sorted(self.connectors))}"
        )

    def listed(self, *, connectors_only: bool) -> list[dict[str, str]]:
        """Return the plugins as GET /connector-plugins lists them."""
        found = [
            {"class": name, "type": each.kind, "version": each.version or __version__}
            for name, each in sorted(self.connectors.items(), key=lambda pair: (pair[1].kind, pair[0]))
        ]
        if connectors_only:
            return found
        for kind, names in (
            ("converter", CONVERTERS),
            ("header_converter", HEADERS),
            ("transformation", TRANSFORMS),
            ("predicate", PREDICATE_TYPES),
        ):
            found += [{"class": name, "type": kind, "version": __version__} for name in sorted(names)]
        return found

    def plugin(self, name: str) -> Any:
        """Return any plugin by its name; None if there is none."""
        for known in (CONVERTERS, HEADERS, TRANSFORMS, PREDICATE_TYPES):
            for each, kind in known.items():
                if name in (each, each.rpartition(".")[2]):
                    return kind
        try:
            return self.connector(name)
        except WrongConfig:
            return None


def _user_modules(path: str) -> list[ModuleType]:
    place = Path(path)
    try:
        if place.is_dir():
            _importable(place)
            return [
                importlib.import_module(each.stem)
                for each in sorted(place.glob("*.py"))
                if not each.name.startswith(("_", "test_"))
            ]
        if place.is_file():
            _importable(place.parent)
            return [importlib.import_module(place.stem)]
        return [importlib.import_module(path)]
    except Exception as error:
        raise ConnectError(f"plugin.path: {path} cannot be imported: {error!r}") from error


def _importable(folder: Path) -> None:
    text = str(folder.resolve())
    if text not in sys.path:
        sys.path.append(text)


def converter_of(
    which: str,
    config: Mapping[str, str],
    defaults: Mapping[str, str],
    *,
    known: Mapping[str, type[Converter]],
) -> Converter:
    """Return the key, value or header converter of a connector: its own, or the worker's."""
    key = f"{which}.converter"
    source = config if config.get(key) else defaults
    name = source.get(key) or DEFAULT_HEADER_CONVERTER
    kind = known.get(name) or next((each for full, each in known.items() if full.endswith(f".{name}")), None)
    if kind is None:
        raise WrongConfig(key, name, f"Class {name} could not be found.")
    return kind(section(source, f"{key}."), is_key=which == "key")
