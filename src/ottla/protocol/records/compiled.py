"""Select the compiled version of a module, if there is one for the same source.

Building the package compiles some modules (tools/compile_modules.py): the compiled version of `name.py` is
`_name.*.so` beside it, and contains the hash of its source. If the source has changed since, as in a checkout
after an edit, it is ignored: the source always wins.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import import_module
from types import ModuleType
from typing import Any


def compiled_or_source(module: ModuleType) -> ModuleType:
    """Return the compiled version of a module if it has the same source, else the module."""
    return compiled_twin(module) or module


def compiled_twin(module: ModuleType) -> ModuleType | None:
    """Return the compiled version of a module; None if there is none, or one of another source."""
    package, _, name = module.__name__.rpartition(".")
    try:
        twin = import_module(f"{package}._{name}")
    except ImportError:  # there is none, or it is for another machine
        return None
    loader: Any = module.__loader__
    source: bytes = loader.get_data(module.__file__)
    return twin if sha256(source).hexdigest() == twin.SOURCE_SHA256 else None
