"""Runs comparisons of types that contain one another without recursion.

A comparison is a generator. It yields the pairs that it needs compared, and is sent what was found. So how
deep two schemas may be, references followed, does not depend on Python's stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from ottla.registry.formats.limits import MAX_COMPARE_DEPTH, TooComplex

Pair = TypeVar("Pair")
Found = TypeVar("Found")

Steps = Generator[Pair, Found, Found]
"""A running comparison: yields pairs, receives the differences of each, returns its own differences."""


def run(start: Callable[[Pair], Found | Steps[Pair, Found]], pair: Pair) -> Found:
    """Compare a pair; `start` returns what is known of a pair, or the steps that find it out."""
    stack: list[Steps[Pair, Found]] = []
    answer = start(pair)
    while True:
        if isinstance(answer, Generator):
            stack.append(answer)
            if len(stack) > MAX_COMPARE_DEPTH:
                raise TooComplex(f"the schemas are more than {MAX_COMPARE_DEPTH} levels deep")
            send = None
        else:
            if not stack:
                return answer
            send = answer
        try:
            wanted = stack[-1].send(send)  # type: ignore[arg-type]
        except StopIteration as end:
            stack.pop()
            answer = end.value
        else:
            answer = start(wanted)
