"""The option `--topic NAME[:PARTITION,...]`: some partitions of some topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.support.problem_kinds import UNKNOWN_TOPIC
from ottla.cli.support.problems import Problem
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.common.near_names import did_you_mean

if TYPE_CHECKING:
    from ottla.client.admin.cluster_admin import ClusterInfo

# Partitions as they are typed: `orders` for all of a topic, `orders:3` for one.


def partitions_named(info: ClusterInfo, names: Iterable[str]) -> list[TopicPartition]:
    """Return the named partitions, each once; raise Problem if one does not exist."""
    chosen: dict[TopicPartition, None] = {}
    for name in names:
        topic, colon, index = name.rpartition(":")
        if not colon:
            topic = name
        found = info.topics.get(topic)
        if found is None:
            hints = did_you_mean(topic, info.topics)
            hints.append("list them:  ottla topic list")
            raise Problem(f"there is no topic {topic!r}", *hints, kind=UNKNOWN_TOPIC)
        if colon and (not index.isdecimal() or int(index) not in found.partitions):
            raise Problem(f"{topic} has no partition {index!r}; it has {len(found.partitions)}")
        indexes = [int(index)] if colon else list(found.partitions)
        chosen.update(dict.fromkeys(TopicPartition(topic, each) for each in indexes))
    return list(chosen)


Command = TypeVar("Command", bound=Callable[..., Any])

Choice = dict[str, tuple[int, ...]]
"""Partitions by topic; no partitions means all of them."""


def topic_option(text: str) -> Callable[[Command], Command]:
    """Add `--topic`, repeatable; `text` is its help."""
    return click.option(
        "-t",
        "--topic",
        "topics",
        multiple=True,
        metavar="NAME[:P,...]",
        callback=_parse_all,
        help=text,
    )


def parse_choice(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the topic and the partitions that `text` names."""
    name, colon, rest = text.partition(":")
    numbers = [each.strip() for each in rest.split(",")] if colon else []
    if not name or not all(each.isascii() and each.isdigit() for each in numbers):
        raise ValueError(f"{text!r} is not a topic: write NAME, NAME:0 or NAME:0,3")
    return name, tuple(dict.fromkeys(map(int, numbers)))


async def chosen_partitions(cluster: Cluster, choice: Choice) -> list[TopicPartition]:
    """Return the chosen partitions; raise Problem for one that does not exist."""
    found = []
    for name, wanted in choice.items():
        known = (await cluster.topic(name)).partitions
        for index in wanted:
            if index not in known:
                raise Problem(
                    f"{name} has no partition {index}: it has {len(known)}, numbered from 0",
                    f"see: ottla topic describe {name}",
                )
        found += [TopicPartition(name, index) for index in wanted or known]
    return found


def is_chosen(partition: TopicPartition, choice: Choice) -> bool:
    """Return whether a partition was chosen; without any choice, all are."""
    if not choice:
        return True
    wanted = choice.get(partition.topic)
    return wanted is not None and (not wanted or partition.partition in wanted)


def _parse_all(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> Choice:
    choice: Choice = {}
    for text in texts:
        try:
            name, partitions = parse_choice(text)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
        if name in choice:
            raise click.BadParameter(f"{name} is given twice; write {name}:0,1", ctx, param)
        choice[name] = partitions
    return choice
