"""Groups of commands that are imported when they are used: help, completion and other commands start fast."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Table = Mapping[str, tuple[str, str]]
"""Name of each command, its module, its help text. In the module its object has the same name."""

SYNONYMS = {
    "add": ("create",),
    "get": ("describe",),
    "info": ("describe",),
    "ls": ("list",),
    "new": ("create",),
    "remove": ("delete",),
    "reset": ("seek", "reset"),
    "rm": ("delete",),
    "set": ("alter",),
    "show": ("describe", "show"),
    "unset": ("alter",),
    "update": ("alter",),
}
"""What other tools call our sub-commands."""


def suggestion(typed: str, names: Collection[str]) -> str:
    """Return a clause that names the command that was probably meant, or nothing."""
    import difflib

    synonyms = [name for name in SYNONYMS.get(typed, ()) if name in names]
    near = synonyms or difflib.get_close_matches(typed, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


class LazyGroup(click.Group):
    """A click group that imports some of its sub-commands only to run them; it completes whole help texts."""

    def __init__(self, *args: Any, lazy: Table | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.lazy = lazy or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names: its own, then those of the table in its order."""
        own = sorted(self.commands)
        return own + [name for name in self.lazy if name not in self.commands]

    def all_names(self, ctx: click.Context) -> list[str]:
        """Return the names that may be typed."""
        return self.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a sub-command."""
        if cmd_name in self.commands or cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        gc.disable()  # nothing of what is imported is garbage
        try:
            module = importlib.import_module(self.lazy[cmd_name][0])
        finally:
            gc.freeze()
            gc.enable()
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the sub-command; if there is none, suggest the one that was probably meant."""
        is_typed = args and not args[0].startswith("-") and not ctx.resilient_parsing
        if is_typed and self.get_command(ctx, args[0]) is None:
            names = self.all_names(ctx)
            raise click.UsageError(f"there is no command {args[0]!r}{suggestion(args[0], names)}", ctx)
        return super().resolve_command(ctx, args)

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return the names and help texts, without imports."""
        found = []
        for name in self.list_commands(ctx):
            if name in self.commands:
                found.append((name, self.commands[name].get_short_help_str(limit=200)))
            else:
                found.append((name, self.lazy[name][1]))
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the sub-commands without importing them."""
        from click.shell_completion import CompletionItem

        own = click.Command.shell_complete(self, ctx, incomplete)
        named = [each for each in self.summaries(ctx) if each[0].startswith(incomplete)]
        return [*(CompletionItem(name, help=summary) for name, summary in named), *own]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the sub-commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))
