"""Finds the compiled twin of a module, if there is one that fits.

Building the package compiles some modules (tools/compile_modules.py): the twin of `name.py` is `_name.*.so`
beside it, and remembers the hash of the source it was made from. A twin of another source, as a checkout has
it after an edit, is left alone: what counts is always what is written in the module.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import import_module
from types import ModuleType
from typing import Any


def compiled_or_source(module: ModuleType) -> ModuleType:
    """Return the compiled twin of a module if it says the same, else the module."""
    return compiled_twin(module) or module


def compiled_twin(module: ModuleType) -> ModuleType | None:
    """Return the compiled twin of a module; None if there is none, or one of another source."""
    package, _, name = module.__name__.rpartition(".")
    try:
        twin = import_module(f"{package}._{name}")
    except ImportError:  # there is none, or it is for another machine
        return None
    loader: Any = module.__loader__
    source: bytes = loader.get_data(module.__file__)
    return twin if sha256(source).hexdigest() == twin.SOURCE_SHA256 else None
