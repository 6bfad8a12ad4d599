"""`ottla pipeline init`: a new pipeline that works at once."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.output import talk
from ottla.cli.pipeline_options import guarded
from ottla.spark.pipelines.scaffold import scaffold


@click.command("init")
@click.argument("folder", type=click.Path(path_type=Path))
@guarded
def init_command(folder: Path) -> None:
    """Make a pipeline in FOLDER: flows in Python and SQL, sample records, a test."""
    for file in scaffold(folder):
        click.echo(str(file))
    talk(f"try it:  ottla pipeline test {folder}")
