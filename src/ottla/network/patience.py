"""How long a peer has shown no sign of life; costs nothing between sweeps."""

from __future__ import annotations


class Patience:
    """Compares a number that moves when the peer does something with what it was at the last sweep."""

    __slots__ = ("_mark", "_since_ms")

    def __init__(self, now_ms: int) -> None:
        self._mark = 0
        self._since_ms = now_ms

    def quiet_ms(self, mark: int, now_ms: int, is_excused: bool) -> int:
        """Return for how long `mark` has stood still, not counting times when the peer was excused."""
        if mark != self._mark or is_excused:
            self._mark, self._since_ms = mark, now_ms
        return now_ms - self._since_ms

    def is_quiet(self, mark: int) -> bool:
        """Return whether nothing has happened since the last sweep."""
        return mark == self._mark
