"""Topic names with wildcards: `orders-*`, `orders-?`, `orders-[ab]`, as in a shell."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from ottla.cli.support.problem_kinds import UNKNOWN_TOPIC
from ottla.cli.support.problems import Problem
from ottla.client.cluster import Cluster
from ottla.common.topic_names import is_internal

WILDCARDS = frozenset("*?[")


def is_pattern(name: str) -> bool:
    """Return whether a name has wildcards; no topic name has them."""
    return not WILDCARDS.isdisjoint(name)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a topic is one of `patterns`, or matches one."""
    return any(fnmatch.fnmatchcase(name, each) for each in patterns)


async def expand(cluster: Cluster, names: Iterable[str]) -> list[str]:
    """Replace patterns by the topics that match, in order; raise Problem for one that matches none.

    Internal topics match only patterns that start with an underscore.
    """
    wanted = list(dict.fromkeys(names))
    if not any(map(is_pattern, wanted)):
        return wanted
    known = sorted(await cluster.refresh(None))
    found: list[str] = []
    for name in wanted:
        if not is_pattern(name):
            found.append(name)
            continue
        matching = [each for each in known if matches(each, [name])]
        if not name.startswith("_"):
            matching = [each for each in matching if not is_internal(each)]
        if not matching:
            raise Problem(
                f"no topic matches {name!r}", "see the topics:  ottla topic list", kind=UNKNOWN_TOPIC
            )
        found += matching
    return list(dict.fromkeys(found))
