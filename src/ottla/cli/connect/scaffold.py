"""`ottla connect init`: a first connector with its test."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.support.output import echo_err
from ottla.cli.support.problems import Problem

CONNECTOR = '''"""A connector: change what `read` yields, and the config keys."""

from ottla.connect.config.keys import INT, ConfigKey
from ottla.connect.data.record import Record
from ottla.connect.sdk import SourceConnector, SourceReader, partition_of

PARTITION = partition_of(counter="main")


class {name}(SourceConnector):
    """Counts up to a limit."""

    keys = (
        ConfigKey("topic", doc="The topic."),
        ConfigKey("limit", INT, 100, "Where to end."),
    )

    def reader(self, task):
        """Return what reads: it is pickled, and called by Spark."""
        return {name}Reader(self.settings["topic"], self.settings["limit"])

    def topics(self):
        """Return the topics to create."""
        return [self.settings["topic"]]


class {name}Reader(SourceReader):
    """Reads in batches: `latest` says how far, `read` yields the records in between, always the same."""

    def __init__(self, topic, limit):
        self.topic, self.limit = topic, limit

    def initial(self, stored):
        """Return where to start."""
        return stored or {{PARTITION: {{"position": 0}}}}

    def latest(self, start):
        """Return how far the next batch goes."""
        return {{PARTITION: {{"position": min(self.limit, start[PARTITION]["position"] + 1000)}}}}

    def read(self, part):
        """Yield the records of a batch."""
        start, end = part
        for number in range(start[PARTITION]["position"], end[PARTITION]["position"]):
            yield Record(self.topic, {{"number": number}}, key=str(number))
'''

TEST = '''"""Test the connector without Spark: the kit calls it as a worker does."""

from {module} import {name}

from ottla.connect.testing import read_source


def test_it_reads_everything_once():
    records = read_source({name}, {{"topic": "numbers", "limit": "5"}})
    assert [each.value for each in records] == [{{"number": number}} for number in range(5)]
'''


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", default="CounterSource", show_default=True, help="The name of the class.")
def init(folder: Path, name: str) -> None:
    """Write a first connector of your own with its test.

    \b
    ottla connect init my-connectors
    ottla connect serve --plugins my-connectors
    """
    if not name.isidentifier():
        raise click.UsageError(f"--name: {name!r} is not the name of a Python class")
    module = f"{folder.name.replace('-', '_')}_connector"
    files = {
        f"{module}.py": CONNECTOR.format(name=name),
        f"test_{module}.py": TEST.format(name=name, module=module),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        if (folder / file).exists():
            raise Problem(f"{folder / file} exists already")
        (folder / file).write_text(text)
    echo_err(f"written: {', '.join(str(folder / each) for each in files)}")
    echo_err(f"test it:  pytest {folder}")
    echo_err(f"run it:   ottla connect serve --plugins {folder}")
