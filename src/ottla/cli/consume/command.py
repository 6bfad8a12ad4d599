"""`ottla consume`: read records of topics to standard output."""

from __future__ import annotations

import re
import sys

import click

from ottla.cli.consume.pretty import pretty_formatter
from ottla.cli.consume.reading import ConsumeOptions, read_topics
from ottla.cli.support import session
from ottla.cli.support.completing import topic_names
from ottla.cli.support.offset_range import Span, parse_span
from ottla.cli.support.options import bootstrap_option, is_terminal, named_argument
from ottla.cli.support.records import Formatter, template, to_json
from ottla.cli.support.schemas import decoding, schema_options, schema_settings

AUTOMATIC = "auto"


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Templates: %t topic, %p partition, %o offset, %T timestamp, %k key, %v value, %h headers, "
    r"%K and %V sizes, %R size in 4 bytes, %v{hex} %k{base64}, \n \t \xHH.",
)
@named_argument("topic", "--topic", "TOPIC", topic_names)
@click.argument("values", nargs=-1, metavar="[TOPIC]...", shell_complete=topic_names)
@click.option("-r", "--regex", "is_regex", is_flag=True, help="The topics are regular expressions.")
@click.option(
    "-g", "--group", metavar="NAME", help="Read as a member of this consumer group, and commit offsets."
)
@click.option(
    "--isolation",
    type=click.Choice(["committed", "uncommitted"]),
    default="uncommitted",
    show_default=True,
    help="committed: leave out records of open and aborted transactions.",
)
@click.option("--from-beginning", is_flag=True, help="Same as --offset start.")
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
@click.option("-e", "--exit", "exit_at_end", is_flag=True, help="Stop at the current end of the topic.")
@click.option(
    "-f",
    "--format",
    "output_format",
    metavar="FORMAT",
    default=AUTOMATIC,
    help="table, json (one object per line), or a template such as '%k=%v\\n'.  "
    "[default: table on a terminal, else json]",
)
@schema_options(writes=False)
@bootstrap_option
def consume(
    topic: str,
    values: tuple[str, ...],
    is_regex: bool,
    group: str | None,
    isolation: str,
    from_beginning: bool,
    offset: str | None,
    partitions: tuple[int, ...],
    max_records: int | None,
    exit_at_end: bool,
    output_format: str,
    bootstrap: str,
) -> None:
    """Read records of the TOPICs until Ctrl-C, or as the options say.

    \b
    ottla consume orders --from-beginning --exit
    ottla consume orders --offset -5 --format '%p:%o %k=%v\\n'
    ottla consume orders --offset @2026-11-15T13:00:00 --format json
    ottla consume orders --partition 0 --offset 100:200
    ottla consume orders --from-beginning --value-format registry
    ottla consume 'orders-.*' --regex --group billing
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
        raise click.UsageError("--offset P=N names the partitions itself: remove --partition")
    unexpected = click.get_current_context().meta.get("ottla.first_value")
    if unexpected is not None:
        raise click.UsageError(f"unexpected {unexpected!r}: --topic already names {topic}")
    topics = tuple(dict.fromkeys((topic, *values)))
    _check_options(topics, group, offset, chosen, span, is_regex)
    write = decoding(write, schema_settings())
    options = ConsumeOptions(
        topics, chosen, span, max_records, exit_at_end, write, is_regex, f"read_{isolation}"
    )
    if group is not None:
        from ottla.cli.consume.group_reading import read_as_member

        session.run(bootstrap, lambda cluster: read_as_member(cluster, group, options))
    else:
        session.run(
            bootstrap,
            lambda cluster: read_topics(cluster, options),
            topic=topic if len(topics) == 1 else None,
        )


def _check_options(
    topics: tuple[str, ...],
    group: str | None,
    offset: str | None,
    partitions: tuple[int, ...],
    span: Span,
    is_regex: bool,
) -> None:
    """Refuse options that contradict each other."""
    if group is not None and (offset is not None or partitions):
        raise click.UsageError(
            "--group excludes --offset and --partition: the group decides; to move it: ottla group seek"
        )
    if (len(topics) > 1 or is_regex) and (partitions or span.start.each):
        raise click.UsageError("--partition and --offset P=N need exactly one TOPIC")
    for each in topics if is_regex else ():
        try:
            re.compile(each)
        except re.error as error:
            raise click.UsageError(f"{each!r} is not a regular expression: {error}") from None


def formatter(name: str) -> Formatter:
    """Return the formatter; ValueError says what is wrong with a template."""
    if name == AUTOMATIC:
        name = "table" if is_terminal(sys.stdout) else "json"
    if name == "table":
        return pretty_formatter()
    return to_json if name == "json" else template(name)
