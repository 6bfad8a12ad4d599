"""Remembers what was made of texts, up to a number and a total size: a few large schemas take gigabytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SizedCache(Generic[Key, Value]):
    """The values that were used last; the caller says how large each is."""

    def __init__(self, most: int, most_size: int) -> None:
        self._most = most
        self._most_size = most_size
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self.size = 0
        """The sizes of all values together."""

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def __getitem__(self, key: Key) -> Value:
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Remember a value, unless it is too large alone, and forget those that were used least recently."""
        if size > self._most_size:
            return
        _, old_size = self._kept.pop(key, (None, 0))
        self._kept[key] = value, size
        self.size += size - old_size
        while len(self._kept) > self._most or self.size > self._most_size:
            _, (_, left_size) = self._kept.popitem(last=False)
            self.size -= left_size

    def get(self, key: Key, size: int, make: Callable[[], Value]) -> Value:
        """Return the value, which is made if it is not remembered."""
        if key not in self:
            self.put(key, value := make(), size)
            return value
        return self[key]

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self.size = 0
