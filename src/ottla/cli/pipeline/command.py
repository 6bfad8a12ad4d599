"""`ottla pipeline`: run, inspect and test pipelines on Spark."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from ottla.cli.pipeline.options import guarded, master_option, name_option, root_option, settings_option
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import bootstrap_option, key_values
from ottla.cli.support.output import echo_err
from ottla.spark.pipelines.scaffold import scaffold

# `ottla pipeline init`: create a working example.


@click.command("init")
@click.argument("folder", type=click.Path(path_type=Path))
@guarded
def init_command(folder: Path) -> None:
    """Create a pipeline in FOLDER: flows in Python and SQL, sample records, a test.

    \b
    ottla pipeline init shop
    """
    for file in scaffold(folder):
        click.echo(str(file))
    echo_err(f"try it:  ottla pipeline test {folder}")


COMMANDS = {
    "run": (
        "ottla.cli.pipeline.command",
        "Run a pipeline until Ctrl-C, or until all available records are processed.",
    ),
    "list": ("ottla.cli.pipeline.status", "List pipelines and their states."),
    "status": ("ottla.cli.pipeline.status", "Show the progress of a pipeline's flows."),
    "stop": ("ottla.cli.pipeline.status", "Stop a pipeline after its current batches."),
    "pause": ("ottla.cli.pipeline.status", "Pause a pipeline; its driver keeps running."),
    "resume": ("ottla.cli.pipeline.status", "Resume a paused pipeline."),
    "restart": ("ottla.cli.pipeline.status", "Restart a running pipeline with its files as they are now."),
    "dlq": ("ottla.cli.pipeline.dlq", "Show the dead letters of a pipeline."),
    "unit": ("ottla.cli.pipeline.unit", "Generate a systemd unit for pipelines."),
    "offsets": ("ottla.cli.pipeline.offsets", "Show and change positions in topics."),
    "explain": ("ottla.cli.pipeline.check", "Show the flows and Spark's plans, without running."),
    "test": ("ottla.cli.pipeline.check", "Test the flows on samples. Needs no broker."),
    "init": ("ottla.cli.pipeline.command", "Create a new pipeline."),
    "copy": ("ottla.cli.pipeline.copy", "Copy between a topic, files and PostgreSQL."),
}
"""Name of each sub-command, its module (as `NAME_command`), its help text."""


class PipelineGroup(LazyGroup):
    """A click group that imports a sub-command only to run it."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a sub-command."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=PipelineGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nGet started:  ottla pipeline init shop\nand then:  ottla pipeline test shop",
)
def pipeline() -> None:
    """Run, inspect and test pipelines on Spark."""


@click.command("run")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--available-now", is_flag=True, help="Process the available records, then end.")
@click.option(
    "--full-refresh",
    "refreshed",
    multiple=True,
    metavar="DATASET",
    help="Discard the state of this dataset and recompute it; repeatable.",
)
@click.option("--full-refresh-all", is_flag=True, help="Discard all state and recompute everything.")
@click.option(
    "--retries",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    metavar="N",
    help="Restart a failed flow at most N times in a row.",
)
@click.option(
    "--refresh-every",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Recompute a materialized view at most this often.",
)
@click.option(
    "--metrics",
    "listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Serve /metrics for Prometheus and /status here; port 0: any; '' for none.",
)
@click.option(
    "--log-level",
    type=click.Choice(["error", "warn", "info", "debug"], case_sensitive=False),
    default="warn",
    show_default=True,
    help="The level of Spark's log in spark.log.",
)
@master_option
@settings_option(key_values)
@name_option
@root_option
@bootstrap_option
@guarded
def run_command(
    paths: tuple[Path, ...],
    available_now: bool,
    refreshed: tuple[str, ...],
    full_refresh_all: bool,
    retries: int,
    refresh_every: float,
    listen: str,
    log_level: str,
    master: str,
    settings: dict[str, str],
    name: str,
    root: Path,
    bootstrap: str,
) -> None:
    """Run the pipeline at PATH: a .py or .sql file, or a folder. Several PATHs share one Spark.

    On a terminal, progress is shown on standard error; in a pipe, each batch is a JSON line on standard
    output. Ctrl-C and SIGTERM let the current batches finish. The next run resumes where this one ended.

    \b
    ottla pipeline run orders.py
    ottla pipeline run shop/ --available-now
    ottla pipeline run shop/ stock/
    ottla pipeline run shop/ --master spark://head:7077 \\
        --set spark.executor.memory=2g
    """
    from ottla.cli.pipeline.run import run_jobs
    from ottla.cli.support.session import connection_settings
    from ottla.spark.pipelines.project import open_project
    from ottla.spark.pipelines.run.driver import Job
    from ottla.spark.pipelines.run.runner import RunOptions
    from ottla.spark.pipelines.run.storage import open_storage

    if name and len(paths) > 1:
        raise click.UsageError("--name is for one pipeline")
    projects = [open_project(path, name=name) for path in paths]
    if len({each.name for each in projects}) < len(projects):
        raise click.UsageError("two of the pipelines have the same name")
    jobs = [
        Job(
            project,
            open_storage(root, project.name, project.folder, project.spec.storage),
            bootstrap=bootstrap,
            client=connection_settings(),
            master=master,
            settings=settings,
            listen=listen if number == 0 or not listen else f"{listen.rpartition(':')[0]}:0",
            full_refresh=("*",) if full_refresh_all else refreshed,
            options=RunOptions(
                available_now=available_now, retries=retries, refresh_ms=int(refresh_every * 1000)
            ),
        )
        for number, project in enumerate(projects)
    ]
    run_jobs(jobs, log_level=log_level.upper())
