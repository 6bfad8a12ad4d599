"""CRC-32C, from the extension module of the package `crc32c`.

The package itself reads its own version with importlib.metadata and has a command line: importing that takes
longer than all the rest of a client's start. So the extension is loaded without it, where it is found.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec


def _extension() -> Callable[..., int] | None:
    package = find_spec("crc32c")  # finds it, and does not run it
    if package is None or not package.submodule_search_locations:
        return None
    found = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if found is None or found.loader is None:
        return None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    function: Callable[..., int] | None = getattr(module, "crc32c", None)
    return function


def _package() -> Callable[..., int]:
    from crc32c import crc32c

    return crc32c


crc32c = _extension() or _package()
"""Return the CRC-32C of some bytes, continued from another one's if that is given."""
