"""Options that the `ottla pipeline` commands share, and their error messages."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ottla.cli.support.problems import Problem
from ottla.cli.support.start_problems import java_missing

Command = TypeVar("Command", bound=Callable[..., Any])

ROOT_VARIABLE, DEFAULT_ROOT = "OTTLA_PIPELINES", "ottla-pipelines"


def root_option(command: Command) -> Command:
    """Add `--root`: the folder of checkpoints, tables and state."""
    option = click.option(
        "--root",
        type=click.Path(path_type=Path),
        envvar=ROOT_VARIABLE,
        default=Path(DEFAULT_ROOT),
        help=f"The folder of checkpoints, tables and state.  [default: ${ROOT_VARIABLE} or ./{DEFAULT_ROOT}]",
    )
    return option(command)


def name_option(command: Command) -> Command:
    """Add `--name`: overrides the name of the spec or the file."""
    return click.option(
        "--name", default="", help="The name of the pipeline.  [default: that of the spec, or of the file]"
    )(command)


def master_option(command: Command) -> Command:
    """Add `--master`: the Spark master."""
    option = click.option(
        "--master",
        default="",
        metavar="URL",
        help="Spark's master: local[N], spark://HOST:PORT, yarn, k8s://...  [default: local[*]]",
    )
    return option(command)


def settings_option(callback: Callable[..., Any]) -> Callable[[Command], Command]:
    """Add `--set`: Spark settings."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        callback=callback,
        help="A Spark setting; overrides the spec; repeatable.",
    )


def guarded(command: Command) -> Command:
    """Print a command's PipelineProblem as an error; paths are relative to the working directory where
    possible.
    """

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        from ottla.spark.errors import SparkError
        from ottla.spark.pipelines.problems import PipelineProblem

        try:
            return command(*args, **options)
        except PipelineProblem as problem:
            here = os.getcwd() + os.sep
            headline = problem.headline().replace(here, "")
            raise Problem(headline, *problem.details(), kind=java_missing(problem)) from None
        except SparkError as error:
            raise Problem(str(error)) from None

    return run  # type: ignore[return-value]
