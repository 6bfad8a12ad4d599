"""Commands of other packages: entry points of the group `ottla.cli.plugins`.

A package that is installed beside Ottla adds the command `ottla backup` with

    [project.entry-points."ottla.cli.plugins"]
    backup = "my_package.cli:backup"

where `backup` is a click command or group. It cannot replace a command of Ottla. It is imported when it is
used; a package that cannot be imported breaks its own command only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from ottla.cli.support.problems import Problem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ottla.cli.plugins"


def find_plugins(taken: Collection[str]) -> dict[str, EntryPoint]:
    """Return the commands of other packages by name, but for names that are taken."""
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUP), key=lambda each: each.name)
    return {each.name: each for each in found if each.name not in taken}


def load_plugin(plugin: EntryPoint) -> click.Command:
    """Import the command of another package; raise Problem if that fails."""
    try:
        command = plugin.load()
    except Exception as error:
        raise Problem(
            f"the command {plugin.name!r} of {origin(plugin)} cannot be loaded: "
            f"{type(error).__name__}: {error}",
            "update that package, or remove it with pip uninstall",
        ) from error
    if not isinstance(command, click.Command):
        raise Problem(
            f"the command {plugin.name!r} of {origin(plugin)}, {plugin.value}, is not a click command",
            "update that package, or remove it with pip uninstall",
        )
    return command


def origin(plugin: EntryPoint) -> str:
    """Return the package of a command, with its version."""
    package = plugin.dist
    return "an unknown package" if package is None else f"{package.name} {package.version}"
