"""`ottla bench`: how fast a broker takes and gives records, measured with our own client."""

from __future__ import annotations

import click

from ottla.cli import session
from ottla.cli.bench_run import Load, measure
from ottla.cli.bench_view import as_json, print_report
from ottla.cli.options import batch_options, bootstrap_option, format_option
from ottla.cli.output import print_json


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-n",
    "--records",
    type=click.IntRange(100),
    metavar="N",
    default=200_000,
    show_default=True,
    help="How many.",
)
@click.option(
    "-s",
    "--size",
    type=click.IntRange(1),
    metavar="N",
    default=200,
    show_default=True,
    help="Bytes of each value.",
)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    default=6,
    show_default=True,
    help="Of the topic.",
)
@batch_options
@format_option
@bootstrap_option
def bench(
    records: int,
    size: int,
    partitions: int,
    acks: str,
    compression: str,
    output_format: str,
    bootstrap: str,
) -> None:
    """Measure how fast a broker takes records and gives them back.

    Works with any broker that speaks Kafka's protocol, in a topic of its own that is deleted afterwards. The
    client is one process of Python: it is often the limit, and the report says so. `make bench` measures
    the broker itself.

    \b
    ottla bench
    ottla bench -n 1000000 --size 1000 --compression zstd
    """
    load = Load(records, size, partitions, acks, compression)
    report = session.run(bootstrap, lambda cluster: measure(cluster, load))
    if output_format == "json":
        print_json(as_json(report))
    else:
        print_report(report)
