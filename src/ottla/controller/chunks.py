"""How a long request is cut up, so that no part of it holds up the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

ITEMS_PER_CHUNK = 50
WEIGHT_PER_CHUNK = 100


def chunks(items: Iterable[T], weight: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in order, in lists that are short and light; a heavy item is alone in its list."""
    chunk: list[T] = []
    total = 0
    for item in items:
        each = weight(item)
        if chunk and (len(chunk) >= ITEMS_PER_CHUNK or total + each > WEIGHT_PER_CHUNK):
            yield chunk
            chunk, total = [], 0
        chunk.append(item)
        total += each
    if chunk:
        yield chunk
