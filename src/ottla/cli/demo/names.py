"""What the topics and the group of a run are called."""

from __future__ import annotations

import itertools
from collections.abc import Container
from typing import NamedTuple


class Names(NamedTuple):
    """The pipeline, its topics, and the group that shows how far it is."""

    pipeline: str
    orders: str
    results: str
    group: str


def free_names(taken: Container[str]) -> Names:
    """Return names whose topics do not exist yet: what an earlier demo left stays."""
    for number in itertools.count(1):
        suffix = "" if number == 1 else f"-{number}"
        names = Names(f"demo{suffix}", f"demo-orders{suffix}", f"demo-sales{suffix}", f"demo{suffix}.sales")
        if names.orders not in taken and names.results not in taken:
            return names
    raise AssertionError("there is always another number")
