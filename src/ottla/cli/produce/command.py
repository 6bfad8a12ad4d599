"""`ottla produce`: the command."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import click

from ottla.cli.produce.line_reader import LineReader
from ottla.cli.produce.sending import send_lines
from ottla.cli.support import session
from ottla.cli.support.completing import topic_names
from ottla.cli.support.input_template import InputTemplate
from ottla.cli.support.line_input import LINES, Cut, by_delimiter, read_files, read_lines
from ottla.cli.support.line_input import whole_files as read_whole_files
from ottla.cli.support.options import batch_options, bootstrap_option, is_terminal, named_argument
from ottla.cli.support.output import echo_err
from ottla.cli.support.records import unescaped
from ottla.cli.support.schemas import Encoder, SchemaSettings, schema_options, schema_settings, value_kinds
from ottla.cli.support.table_input import avro_rows, csv_rows, in_portions
from ottla.client.producer import ProducerOptions

TABLES = ("csv", "avro")
FORMATS = ("lines", "json", *TABLES)


def _headers(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, bytes | None], ...]:
    headers: list[tuple[str, bytes | None]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise click.BadParameter(f"{text!r} is not name=value", ctx, param)
        headers.append((name, value.encode() if equals else None))
    return tuple(headers)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@named_argument("topic", "--topic", "TOPIC", topic_names)
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Lines are KEY SEPARATOR VALUE.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_headers,
    help="A header; repeatable.",
)
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(0),
    metavar="N",
    help="The partition.  [default: by key, or round robin]",
)
@batch_options
@click.option(
    "-f",
    "--format",
    "input_format",
    metavar="FORMAT",
    default="lines",
    show_default=True,
    help="lines; json, as `ottla consume -f json` writes it; csv, rows under a first row of names; avro, an "
    "object container file (a row becomes a JSON object, or what the schema says); or a template "
    "such as '%k %v\\n', as for `ottla consume`.",
)
@click.option(
    "-D", "--delimiter", metavar="TEXT", help="What ends a record instead of a newline: '\\0', '\\x1e', ';'."
)
@click.option(
    "--file",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="PATH",
    help="Read this file instead of standard input; repeatable.",
)
@click.option("--whole-files", is_flag=True, help="Each --file is the value of one record.")
@click.option("--key-field", metavar="NAME", help="The field of a csv or avro row that is the key.")
@click.option("--keep-partitions", is_flag=True, help="Use the partitions in the JSON.")
@click.option("-Z", "--empty-null", is_flag=True, help="Empty keys and values become null (a tombstone).")
@schema_options(writes=True)
@bootstrap_option
def produce(
    topic: str,
    values: tuple[str, ...],
    key: str | None,
    key_separator: str | None,
    headers: tuple[tuple[str, bytes | None], ...],
    partition: int | None,
    acks: str,
    compression: str,
    input_format: str,
    delimiter: str | None,
    files: tuple[Path, ...],
    whole_files: bool,
    key_field: str | None,
    keep_partitions: bool,
    empty_null: bool,
    bootstrap: str,
) -> None:
    """Write records to TOPIC: the VALUEs, or else one per line of standard input.

    \b
    ottla produce greetings hello "good morning"
    ottla produce users --key-separator : < users.txt
    ottla consume a -o start -e -f json | ottla produce b -f json
    ottla produce orders '{"id": 7}' --value-schema order.avsc
    ottla produce users -f csv --key-field id --value-schema u.avsc < u.csv
    ottla produce users -f '%k=%v;' --file users.txt
    """
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator exclude each other")
    if key_separator is not None and (not key_separator or input_format != "lines"):
        raise click.UsageError(
            f"--key-separator must not be empty, and needs lines rather than {input_format}"
        )
    if key_field is not None and (key is not None or input_format not in TABLES):
        raise click.UsageError("--key-field needs --format csv or avro, and excludes --key")
    if values and (input_format in TABLES or files):
        reads = (
            f"--format {input_format} reads standard input" if input_format in TABLES else "--file is given"
        )
        raise click.UsageError(f"{reads}: remove {values[0]!r}")
    if keep_partitions and (partition is not None or input_format != "json"):
        raise click.UsageError("--keep-partitions needs --format json, and excludes --partition")
    if whole_files and (not files or input_format != "lines" or key_separator or delimiter):
        raise click.UsageError("--whole-files needs --file, and lines without --delimiter or --key-separator")
    form = _form(input_format, key_separator, delimiter)
    settings = schema_settings()
    encoder = Encoder(topic, settings) if settings.fields else None
    reader = LineReader(
        key=key,
        key_separator=form.key_separator,
        headers=headers,
        partition=partition,
        empty_is_null=empty_null,
        is_json=input_format == "json",
        keeps_partitions=keep_partitions,
        encoder=encoder,
        key_field=key_field,
        template=form.template,
    )
    options = session.settings_for(ProducerOptions, acks=acks, compression_type=compression)
    first = click.get_current_context().meta.get("ottla.first_value")
    values = values if first is None else (first, *values)
    if input_format in TABLES:
        lines = _table(input_format, topic, settings, files)
    elif files:
        lines = read_whole_files(files) if whole_files else read_files(files, form.cut)
    else:
        lines = _given(values) if values else read_lines(cut=form.cut)
    if not values and not files and is_terminal(sys.stdin):
        echo_err(f"One record per line for {topic}; Ctrl-D ends.")
    session.run(bootstrap, lambda cluster: send_lines(cluster, topic, lines, reader, options), topic=topic)


class Form(NamedTuple):
    """How the input is divided into records, and those into key and value."""

    cut: Cut = LINES
    key_separator: bytes | None = None
    template: InputTemplate | None = None


def _form(input_format: str, key_separator: str | None, delimiter: str | None) -> Form:
    """Return what `--format`, `--key-separator` and `--delimiter` say, or raise UsageError."""
    try:
        cut = LINES if delimiter is None else by_delimiter(unescaped(delimiter))
        if input_format in FORMATS:
            if delimiter == "" or (delimiter is not None and input_format in TABLES):
                raise ValueError("--delimiter must not be empty, and needs --format lines or json")
            return Form(cut, None if key_separator is None else unescaped(key_separator))
        if "%" not in input_format:
            raise ValueError(f"--format is {', '.join(FORMATS)} or a template such as '%k %v\\n'")
        if delimiter is not None:
            raise ValueError(
                "--delimiter and a template exclude each other: the template says what is after %v"
            )
        template = InputTemplate(input_format)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if template.separators is None:
        return Form(template.cut, template=template)
    between, end = template.separators
    return Form(by_delimiter(end), between)


def _table(
    input_format: str, topic: str, settings: SchemaSettings, files: tuple[Path, ...]
) -> AsyncIterator[list[bytes]]:
    """Return the rows of standard input or of files, as JSON."""
    return in_portions(_rows(input_format, topic, settings, files))


def _rows(
    input_format: str, topic: str, settings: SchemaSettings, files: tuple[Path, ...]
) -> Iterator[bytes]:
    for path in files or (None,):
        with ExitStack() as stack:
            file = sys.stdin.buffer if path is None else stack.enter_context(path.open("rb"))
            if input_format == "avro":
                yield from avro_rows(file)
            else:
                yield from csv_rows(file, value_kinds(topic, settings))


async def _given(values: Iterable[str]) -> AsyncIterator[list[bytes]]:
    yield [value.encode("utf-8", "surrogateescape") for value in values]
