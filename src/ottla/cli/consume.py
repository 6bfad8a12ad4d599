"""`ottla consume`: records of a topic to standard output."""

from __future__ import annotations

import sys

import click

from ottla.cli import session
from ottla.cli.completing import topic_names
from ottla.cli.options import bootstrap_option, is_terminal, named_argument
from ottla.cli.reading import Wish, read_topic
from ottla.cli.record_view import pretty_formatter
from ottla.cli.records import Formatter, template, to_json
from ottla.cli.start import parse_span

AUTOMATIC = "auto"


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Templates: %t topic, %p partition, %o offset, %T timestamp, %k key, %v value, %h headers, "
    r"%K and %V sizes, \n \t \xHH.",
)
@named_argument("topic", "--topic", "TOPIC", topic_names)
@click.option("--from-beginning", is_flag=True, help="Short for --offset start.")
@click.option(
    "-o",
    "--offset",
    metavar="WHERE",
    help="start, end (default), N, -N (the last N of each partition), @TIME (milliseconds or ISO 8601), "
    "FROM:TO of these, or P=N,P=N (an offset for each partition).",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    metavar="N",
    multiple=True,
    help="Only this partition; repeatable.",
)
@click.option(
    "-n",
    "--max-messages",
    "max_records",
    type=click.IntRange(1),
    metavar="N",
    help="Stop after that many records.",
)
@click.option("-e", "--exit", "exit_at_end", is_flag=True, help="Stop at the end of what there is now.")
@click.option(
    "-f",
    "--format",
    "output_format",
    metavar="FORMAT",
    default=AUTOMATIC,
    help="table, json (one object per line), or a template such as '%k=%v\\n'.  "
    "[default: table on a terminal, else json]",
)
@bootstrap_option
def consume(
    topic: str,
    from_beginning: bool,
    offset: str | None,
    partitions: tuple[int, ...],
    max_records: int | None,
    exit_at_end: bool,
    output_format: str,
    bootstrap: str,
) -> None:
    """Read records of TOPIC, until Ctrl-C or as long as the options say.

    \b
    ottla consume orders --from-beginning --exit
    ottla consume orders --offset -5 --format '%p:%o %k=%v\\n'
    ottla consume orders --offset @2026-11-15T13:00:00 --format json
    ottla consume orders --partition 0 --offset 100:200
    """
    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning and --offset exclude each other")
    try:
        span = parse_span(offset or ("start" if from_beginning else "end"))
        write = formatter(output_format)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    chosen = tuple(dict.fromkeys(partitions)) or tuple(span.start.each)
    if span.start.each and set(chosen) != set(span.start.each):
        raise click.UsageError("--offset P=N names the partitions itself: leave --partition away")
    wish = Wish(topic, chosen, span, max_records, exit_at_end, write)
    session.run(bootstrap, lambda cluster: read_topic(cluster, wish), topic=topic)


def formatter(name: str) -> Formatter:
    """Return what writes a record; ValueError says what is wrong with a template."""
    if name == AUTOMATIC:
        name = "table" if is_terminal(sys.stdout) else "json"
    if name == "table":
        return pretty_formatter()
    return to_json if name == "json" else template(name)
