"""The `ottla` command. Sub-commands are imported when they are used, so that `--help` is fast."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import click

from ottla import __version__
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.plugins import find_plugins, load_plugin, origin
from ottla.cli.support.problems import Interrupted, Problem, missing_package, show_usage

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "up": ("ottla.cli.up.command", "Run a broker, a schema registry and the console."),
    "serve": ("ottla.cli.serve.command", "Run a broker."),
    "topic": ("ottla.cli.topic.command", "Create, list, describe, alter and delete topics."),
    "produce": ("ottla.cli.produce.command", "Write records to a topic, from lines or files."),
    "consume": ("ottla.cli.consume.command", "Read records from topics."),
    "group": ("ottla.cli.group.command", "List, describe, reset and delete consumer groups."),
    "txn": ("ottla.cli.txn.command", "List, describe and abort transactions; find hanging ones."),
    "user": ("ottla.cli.user", "List, create and delete SCRAM users; set their passwords."),
    "acl": ("ottla.cli.acl", "List, create and delete ACLs; explain what they allow."),
    "token": ("ottla.cli.token", "Create, list, renew and expire delegation tokens."),
    "security": ("ottla.cli.security.command", "Set up TLS, users and an authorizer for development."),
    "quota": ("ottla.cli.quota", "List, set and remove quotas of users, client ids and addresses."),
    "registry": ("ottla.cli.registry.command", "Run a schema registry; list, show and change schemas."),
    "console": ("ottla.cli.console.command", "Run the web console."),
    "connect": ("ottla.cli.connect.command", "Run Connect workers; create and manage connectors."),
    "pipeline": (
        "ottla.cli.pipeline.command",
        "Run, inspect and test pipelines on Spark; copy in bulk.",
    ),
    "cluster": ("ottla.cli.cluster.command", "Show brokers and replicas; move partitions and leaders."),
    "zookeeper": ("ottla.cli.zookeeper", "Run a ZooKeeper server."),
    "log": ("ottla.cli.log", "Inspect the log files of a broker."),
    "config": ("ottla.cli.config", "Show, change and validate configs."),
    "profile": ("ottla.cli.profile", "Create, list and choose profiles: clusters by name."),
    "doctor": ("ottla.cli.doctor", "Find problems, and say how to fix them."),
    "debug": ("ottla.cli.debug.command", "Collect logs, configs and metrics to report a problem."),
    "bench": ("ottla.cli.bench", "Measure the throughput and latency of a broker."),
    "demo": ("ottla.cli.demo.command", "Show a live demonstration: orders, a pipeline, results."),
    "generate": (
        "ottla.cli.generate",
        "Generate files for monitoring and deployment.",
    ),
    "explain": ("ottla.cli.explain", "Explain an error code."),
    "completion": ("ottla.cli.completion", "Print the shell completion script."),
}
"""Name of each sub-command (also of its object in its module), its module, its help text."""

EXTRAS = {
    "kazoo": "zookeeper",
    "cryptography": "security",
    "joserfc": "security",
    "pyspark": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "numpy": "spark",
    "fastavro": "avro",
    "psycopg": "postgres",
    "jinja2": "console",
    "starlette": "registry",
    "uvicorn": "registry",
    "jsonschema_rs": "registry",
    "grpc_tools": "registry",
}
"""The extra of Ottla that installs each package."""


_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Why a file that is open, such as standard output, cannot be written."""


class OttlaGroup(LazyGroup):
    """The `ottla` command itself: the commands of the table, and those of other packages."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a sub-command."""
        found = super().get_command(ctx, cmd_name)
        if found is None and (plugin := find_plugins(COMMANDS).get(cmd_name)) is not None:
            found = load_plugin(plugin)
        return found

    def all_names(self, ctx: click.Context) -> list[str]:
        """Return the names that may be typed: those of other packages too."""
        return [*super().all_names(ctx), *find_plugins(COMMANDS)]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the sub-commands without importing them."""
        from click.shell_completion import CompletionItem

        plugins = [each for each in find_plugins(COMMANDS).values() if each.name.startswith(incomplete)]
        added = [CompletionItem(each.name, help=f"A command of {origin(each)}.") for each in plugins]
        return [*super().shell_complete(ctx, incomplete), *added]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the sub-commands without importing them."""
        super().format_commands(ctx, formatter)
        plugins = find_plugins(COMMANDS)
        if plugins:
            with formatter.section("Commands of other packages"):
                formatter.write_dl([(name, f"From {origin(each)}.") for name, each in plugins.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run; if the reader of the output closes it (`| head`), exit as SIGPIPE would."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(128 + signal.SIGPIPE)
        return result


@click.group(
    cls=OttlaGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nGet started:  ottla up\nand then:  echo hello | ottla produce greetings",
)
@click.version_option(__version__, prog_name="ottla", message="%(prog)s %(version)s")
def ottla() -> None:
    """Ottla: an event-streaming platform that speaks the Kafka protocol."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit; every error becomes a message on standard error and an exit code."""
    # kio imports hypothesis, a test tool, if it is installed: 0.2 s that no command needs.
    sys.modules.setdefault("hypothesis", cast(ModuleType, None))
    _open_missing_streams()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # in a locale without UTF-8
    typed = [os.fsencode(each).decode("utf-8", "surrogateescape") for each in sys.argv[1:]]
    sys.exit(run(typed if args is None else args))


def _open_missing_streams() -> None:
    """Open the null device for closed standard streams (`>&-`), before a socket gets their number."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _command_path(args: Sequence[str]) -> str:
    """Return the command that was typed, without its options and arguments."""
    command: click.Command = ottla
    names = ["ottla"]
    for word in args:
        if not isinstance(command, click.Group):
            break
        below = command.get_command(click.Context(command), word)
        if below is None:
            break
        command = below
        names.append(word)
    return " ".join(names)


def run(args: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    try:
        colours = False if os.environ.get("NO_COLOR") else None
        result = ottla.main(args=list(args), prog_name="ottla", standalone_mode=False, color=colours)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.UsageError as error:
        show_usage(error, _command_path(args))
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
        missing_package((error.name or "").split(".")[0], extra).show()
        return 1
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except UnicodeEncodeError as error:
        if error.reason != "surrogates not allowed":
            raise
        Problem(f"{os.fsencode(error.object)!r} is not UTF-8").show()
        return 1
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # drop what standard output still holds
        Problem(f"cannot write: {error.strerror}").show()
        return 1
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
