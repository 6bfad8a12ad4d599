"""`ottla demo`: the command."""

from __future__ import annotations

import importlib.util
import time

import click
from click.core import ParameterSource

from ottla.cli.support.options import bootstrap_option, client_settings
from ottla.cli.support.problem_kinds import NO_JAVA
from ottla.cli.support.problems import Problem, missing_package
from ottla.cli.support.profiles import BOOTSTRAP_KEY
from ottla.common.java import JavaNotFound, find_java


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--seconds",
    type=click.FloatRange(1),
    metavar="N",
    help="End N seconds after the start, with the first results at the earliest.",
)
@click.option(
    "--rate",
    type=click.IntRange(1, 20_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Orders a second.",
)
@click.option("--seed", type=int, default=1, show_default=True, metavar="N", help="Which orders.")
@click.option("--keep", is_flag=True, help="Keep its topics, on a broker that was running before.")
@click.option("--no-spark", is_flag=True, help="Use a consumer group in Python instead of Spark.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Format of the final results.",
)
@bootstrap_option
@click.pass_context
def demo(
    ctx: click.Context,
    seconds: float | None,
    rate: int,
    seed: int,
    keep: bool,
    no_spark: bool,
    output_format: str,
    bootstrap: str,
) -> int:
    """Show a live demonstration: a stream of orders, and a pipeline that sums them up.

    Starts a temporary broker with schema registry and console if none runs, streams orders into a topic, runs
    a Spark query that sums them up by country, and shows rates, lag and results until Ctrl-C. It stops
    everything that it has started.

    \b
    ottla demo
    ottla demo --no-spark --seconds 10
    """
    began = time.monotonic()
    is_spark_here = importlib.util.find_spec("pyspark") is not None
    if not no_spark and not is_spark_here:
        raise missing_package("pyspark", "spark", "or without Spark:  ottla demo --no-spark")
    if not no_spark:
        _check_java()
    is_named = ctx.get_parameter_source("bootstrap") is not ParameterSource.DEFAULT or (
        BOOTSTRAP_KEY in client_settings()
    )
    from ottla.cli.demo.run import DemoOptions, print_totals, run_demo

    options = DemoOptions(seconds, rate, seed, not no_spark, began, keep)
    state = run_demo(options, bootstrap, is_named)
    if output_format == "json":
        print_totals(state)
    return 0


def _check_java() -> None:
    try:
        find_java()
    except JavaNotFound as error:
        raise Problem(str(error), "or without Spark:  ottla demo --no-spark", kind=NO_JAVA) from None
