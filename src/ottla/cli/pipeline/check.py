"""`ottla pipeline explain` and `test`: show what a pipeline does, and test it on samples."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import click

from ottla.cli.pipeline.options import guarded, master_option, settings_option
from ottla.cli.pipeline.run import end_session
from ottla.cli.support.options import bootstrap_option, format_option, key_values
from ottla.cli.support.output import count, echo_err, print_json
from ottla.cli.support.problems import Problem
from ottla.cli.support.session import connection_settings
from ottla.common.clock import SystemClock
from ottla.common.processes import die_with_parent
from ottla.spark.pipelines.explaining import explain_pipeline
from ottla.spark.pipelines.loading import compile_project, load_project
from ottla.spark.pipelines.project import open_project
from ottla.spark.pipelines.run.driver import Job
from ottla.spark.pipelines.run.runner import RunOptions
from ottla.spark.pipelines.run.sessions import open_session
from ottla.spark.pipelines.run.storage import open_storage
from ottla.spark.pipelines.testing.cases import find_cases
from ottla.spark.pipelines.testing.runs import run_case

# A temporary, empty broker in a process of its own, for the tests of pipelines.

SETTINGS = ("transaction.two.phase.commit.enable=true", "num.partitions=1")
ENDS_WITHIN_S = 10


class SampleBroker:
    """`with SampleBroker() as broker: broker.address`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.address = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "ottla.cli", "serve", "--ephemeral", "--listen", "127.0.0.1:0"]
        command += ["--log-level", "error"]
        for setting in SETTINGS:
            command += ["--set", setting]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent, start_new_session=True
        )
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        if not words or words[0] != "ready":
            raise Problem("cannot start a broker for the test")
        self.address = words[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@click.command("explain")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--plans/--no-plans", default=True, show_default=True, help="Include Spark's plan of each flow."
)
@format_option
@master_option
@settings_option(key_values)
@bootstrap_option
@guarded
def explain_command(
    path: Path, plans: bool, output_format: str, master: str, settings: dict[str, str], bootstrap: str
) -> None:
    """Show what the pipeline at PATH reads and writes, and Spark's plans, without running it.

    \b
    ottla pipeline explain shop/
    """
    project = open_project(path)
    compile_project(project)
    with tempfile.TemporaryDirectory(prefix="ottla-explain-") as folder:
        storage = open_storage(Path(folder), project.name, project.folder)
        job = Job(
            project,
            storage,
            bootstrap=bootstrap,
            client=connection_settings(),
            master=master,
            settings=settings,
        )
        try:
            spark = open_session(job)
            explained = explain_pipeline(job, spark, load_project(project, spark))
        finally:
            end_session()
    if output_format == "json":
        print_json([each.as_json() for each in explained])
        return
    for each in explained:
        click.echo(each.as_text(with_plan=plans))


@click.command("test")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("-k", "only", default="", metavar="NAME", help="Only tests whose names contain this.")
@master_option
@settings_option(key_values)
@guarded
def test_command(path: Path, only: str, master: str, settings: dict[str, str]) -> None:
    """Run the tests of the pipeline at PATH: samples in, results compared. Needs no broker.

    \b
    tests/NAME/input/TOPIC.jsonl       records, one per line; or rows of a dataset
    tests/NAME/expected/TOPIC.jsonl    the expected results, in any order

    \b
    ottla pipeline test shop/
    """
    project = open_project(path)
    cases = [case for case in find_cases(project.folder) if only in case.name]
    if not cases:
        raise Problem(f"no test name contains {only!r}")
    compile_project(project)
    failed = 0
    try:
        for case in cases:
            with tempfile.TemporaryDirectory(prefix="ottla-test-") as folder, SampleBroker() as broker:
                job = Job(
                    project,
                    open_storage(Path(folder), project.name, project.folder),
                    bootstrap=broker.address,
                    master=master,
                    settings=settings,
                    options=RunOptions(available_now=True, retries=0),
                )
                spark = open_session(job)
                differences = run_case(case, job, spark, load_project(project, spark), SystemClock())
            failed += bool(differences)
            verdict = click.style("FAILED", fg="red") if differences else click.style("ok", fg="green")
            click.echo(f"{verdict}  {case.name}")
            for difference in differences:
                click.echo(f"  {difference.name}: - missing, + unexpected")
                for line in difference.lines:
                    click.echo(f"    {line}")
    finally:
        end_session()
    if failed:
        raise Problem(f"{failed} of {count(len(cases), 'test')} failed")
    echo_err(f"{count(len(cases), 'test')} passed")
