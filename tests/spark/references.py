"""What the examples of Kafka Streams' features must come to, in plain Python. Times are in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

Event = tuple[str, float]
"""A key and a time."""
Window = tuple[str, float, float]
"""A key, the start and the end."""


def window_counts(batches: Sequence[Sequence[Event]], width: int, step: int, grace: float) -> Counter[Window]:
    """Count events per key and window; what comes to a window after its grace does not count."""
    counts: Counter[Window] = Counter()
    watermark = float("-inf")
    for batch in batches:
        for key, at in batch:
            for start in _starts(at, width, step):
                if start + width > watermark:
                    counts[key, start, start + width] += 1
        watermark = max(watermark, max(at for _, at in batch) - grace)
    return counts


def closed(windows: Counter[Window], watermark: float) -> dict[Window, int]:
    """Return the windows that the watermark has passed."""
    return {window: count for window, count in windows.items() if window[2] <= watermark}


def sessions(batches: Sequence[Sequence[Event]], gap: int, grace: float) -> dict[Window, int]:
    """Return the sessions that are over after the last batch, and how many events each has."""
    over: dict[Window, int] = {}
    open_sessions: list[tuple[str, float, float, int]] = []
    watermark = float("-inf")
    for batch in batches:
        fresh = [(key, at, at + gap, 1) for key, at in batch if at + gap > watermark]
        open_sessions = _merged([*open_sessions, *fresh])
        watermark = max(watermark, max(at for _, at in batch) - grace)
        over |= {(key, start, end): n for key, start, end, n in open_sessions if end <= watermark}
        open_sessions = [each for each in open_sessions if each[2] > watermark]
    return over


def sliding_averages(
    readings: Sequence[tuple[str, float, float]], width: float, watermark: float
) -> dict[tuple[str, float], tuple[int, float]]:
    """Return count and average of the readings (key, time, value) in the time before each that is final."""
    found = {}
    for key, end, _ in readings:
        if end + 0.001 <= watermark:
            inside = [value for other, at, value in readings if other == key and end - width <= at <= end]
            found[key, end] = (len(inside), sum(inside) / len(inside))
    return found


def newest_per_limit(changes: Iterable[tuple[float, float]], limit: float, now: float) -> list[float]:
    """Return the values of one key that go on: the newest of each time that the first one starts."""
    passed, due, held = [], None, 0.0
    for at, value in sorted(changes):
        if due is not None and at >= due:
            passed.append(held)
            due = None
        due, held = (at + limit if due is None else due), value
    if due is not None and due <= now:
        passed.append(held)
    return passed


def silences(times: Sequence[float], limit: float, now: float) -> list[float]:
    """Return when silences of at least `limit` began."""
    ordered = sorted(times)
    return [at for at, after in zip(ordered, [*ordered[1:], now], strict=True) if after - at >= limit]


def _starts(at: float, width: int, step: int) -> Iterator[int]:
    start = int(at // step) * step
    while start > at - width:
        yield start
        start -= step


def _merged(sessions: Iterable[tuple[str, float, float, int]]) -> list[tuple[str, float, float, int]]:
    result: list[tuple[str, float, float, int]] = []
    for key, start, end, count in sorted(sessions):
        if result and result[-1][0] == key and start <= result[-1][2]:  # touching is enough
            _, first, last, before = result.pop()
            result.append((key, first, max(last, end), before + count))
        else:
            result.append((key, start, end, count))
    return result
