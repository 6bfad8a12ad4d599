"""`ottla pipeline copy`: copy between a topic, files and PostgreSQL."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ottla.cli.pipeline.options import guarded, master_option, root_option, settings_option
from ottla.cli.support.options import bootstrap_option, is_terminal, key_values


@click.command("copy")
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option(
    "--key", default="", metavar="COLUMNS", help="The record's key, or the table's key to upsert by."
)
@click.option(
    "--schema", default="", metavar="DDL", help="JSON values become these columns: 'id INT, name STRING'."
)
@click.option(
    "--partition-by",
    default="",
    metavar="UNIT|COLUMN",
    help="Partition by year, month, day, hour or a column.",
)
@click.option(
    "--event-time", default="", metavar="COLUMN", help="The time to partition by.  [default: the record's]"
)
@click.option(
    "--dsn",
    default="",
    envvar="OTTLA_POSTGRES",
    help="postgresql://USER@HOST/DB.  [default: PGHOST, PGDATABASE, ...]",
)
@click.option(
    "--partition-column",
    default="",
    metavar="COLUMN",
    help="Read PostgreSQL in parallel, by ranges of this column.",
)
@click.option(
    "--partitions", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="How many ranges."
)
@click.option("--continuous", is_flag=True, help="Continue with new records, until Ctrl-C.")
@master_option
@settings_option(key_values)
@root_option
@bootstrap_option
@guarded
def copy_command(
    source: str,
    target: str,
    key: str,
    schema: str,
    partition_by: str,
    event_time: str,
    dsn: str,
    partition_column: str,
    partitions: int,
    continuous: bool,
    master: str,
    settings: dict[str, str],
    root: Path,
    bootstrap: str,
) -> None:
    """Copy SRC to DST: topic:NAME, parquet:PATH, json:PATH, csv:PATH, postgres:TABLE.

    Topics and PostgreSQL receive each row once; with --key, PostgreSQL keeps the last row of each key.
    Repeating a copy transfers only new rows.

    \b
    ottla pipeline copy topic:orders parquet:/data/orders --partition-by day
    ottla pipeline copy csv:/data/in topic:orders --key id
    ottla pipeline copy topic:stock postgres:stock --key item \\
        --schema 'item STRING, n INT'
    """
    from ottla.cli.pipeline.run import run_job
    from ottla.cli.pipeline.view import CopyBar
    from ottla.cli.support.session import connection_settings
    from ottla.spark.pipelines.copying import Copy, check_copy, declare_copy, parse_endpoint
    from ottla.spark.pipelines.run.driver import Job, project_without_files
    from ottla.spark.pipelines.run.runner import RunOptions
    from ottla.spark.pipelines.run.storage import open_storage

    copy = Copy(
        parse_endpoint(source),
        parse_endpoint(target),
        key=key,
        schema=schema,
        partition_by=partition_by,
        event_time=event_time,
        dsn=dsn,
        partition_column=partition_column,
        partitions=partitions,
    )
    check_copy(copy)
    job = Job(
        project_without_files(copy.name, Path.cwd()),
        open_storage(root, copy.name, Path.cwd()),
        bootstrap=bootstrap,
        client=connection_settings(),
        master=master,
        settings=settings,
        options=RunOptions(available_now=not continuous),
    )
    view = CopyBar(f"{copy.source} -> {copy.target}") if is_terminal(sys.stderr) else None
    run_job(job, load=lambda spark: declare_copy(copy, spark), view=view)
