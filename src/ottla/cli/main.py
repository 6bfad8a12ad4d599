"""The `ottla` command. Sub-commands are imported when they are used, so that `--help` is fast."""

from __future__ import annotations

import difflib
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import click

from ottla import __version__
from ottla.cli.support.problems import Interrupted, missing_package, show_usage

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "serve": ("ottla.cli.serve.command", "Run a broker."),
    "topic": ("ottla.cli.topic", "Create, list, describe, alter and delete topics."),
    "produce": ("ottla.cli.produce", "Write records to a topic, from lines or JSON."),
    "consume": ("ottla.cli.consume", "Read records from a topic."),
    "group": ("ottla.cli.group.command", "List, describe, reset and delete consumer groups."),
    "txn": ("ottla.cli.txn.command", "List, describe and abort transactions; find hanging ones."),
    "registry": ("ottla.cli.registry.command", "Run a schema registry; list, show and change schemas."),
    "pipeline": (
        "ottla.cli.pipeline.command",
        "Run, inspect and test pipelines on Spark; copy in bulk.",
    ),
    "cluster": ("ottla.cli.cluster.command", "Show brokers and replicas; move partitions and leaders."),
    "zookeeper": ("ottla.cli.zookeeper", "Run a ZooKeeper server."),
    "log": ("ottla.cli.log", "Inspect the log files of a broker."),
    "config": ("ottla.cli.config", "Show, change and validate configs."),
    "doctor": ("ottla.cli.doctor", "Find problems, and say how to fix them."),
    "bench": ("ottla.cli.bench", "Measure the throughput and latency of a broker."),
    "demo": ("ottla.cli.demo.command", "Show a live demonstration: orders, a pipeline, results."),
    "generate": ("ottla.cli.generate", "Generate files for Grafana, Prometheus, systemd and Compose."),
    "explain": ("ottla.cli.explain", "Explain an error code."),
    "completion": ("ottla.cli.completion", "Print the shell completion script."),
}
"""Name of each sub-command (also of its object in its module), its module, its help text."""

EXTRAS = {
    "kazoo": "zookeeper",
    "pyspark": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "numpy": "spark",
    "fastavro": "avro",
    "psycopg": "postgres",
    "starlette": "registry",
    "uvicorn": "registry",
    "jsonschema_rs": "registry",
    "grpc_tools": "registry",
}
"""The extra of Ottla that installs each package."""


class LazyGroup(click.Group):
    """A click group that imports a sub-command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a sub-command."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the sub-command; if there is none, suggest a similar name."""
        is_typed = args and not args[0].startswith("-") and not ctx.resilient_parsing
        if is_typed and args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run; if the reader of the output closes it (`| head`), exit as SIGPIPE would."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(128 + signal.SIGPIPE)
        return result

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the sub-commands without importing them."""
        from click.shell_completion import CompletionItem

        own = click.Command.shell_complete(self, ctx, incomplete)
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        return [*(CompletionItem(name, help=COMMANDS[name][1]) for name in names), *own]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the sub-commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nGet started:  ottla serve\nand then:  echo hello | ottla produce greetings",
)
@click.version_option(__version__, prog_name="ottla", message="%(prog)s %(version)s")
def ottla() -> None:
    """Ottla: an event-streaming platform that speaks the Kafka protocol."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit; every error becomes a message on standard error and an exit code."""
    # kio imports hypothesis, a test tool, if it is installed: 0.2 s that no command needs.
    sys.modules.setdefault("hypothesis", cast(ModuleType, None))
    sys.exit(run(sys.argv[1:] if args is None else args))


def run(args: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    try:
        colours = False if os.environ.get("NO_COLOR") else None
        result = ottla.main(args=list(args), prog_name="ottla", standalone_mode=False, color=colours)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 0
    except click.UsageError as error:
        show_usage(error)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except Interrupted as error:
        click.echo(f"interrupted; {error.how}", err=True)
        return 130
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        missing_package(error.name or "", extra).show()
        return 1
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
