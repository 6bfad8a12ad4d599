"""Whether the replicas of a partition are the same bytes, read from the files of brokers that are stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.cluster.history import Place
from tests.cluster.reading import problems_in_files, segment_files


def bytes_of(data: Path, place: Place) -> bytes:
    """Return the whole log of a replica, its segments one after the other."""
    return b"".join(path.read_bytes() for path in segment_files(data, place))


def differences(data: Mapping[int, Path], place: Place) -> list[str]:
    """Return in words how the replicas of a partition differ, and what is wrong with each by itself."""
    problems = [
        f"broker {number}: {each}" for number, path in data.items() for each in problems_in_files(path, place)
    ]
    logs = {number: bytes_of(path, place) for number, path in data.items()}
    (first, expected), *others = logs.items()
    for number, found in others:
        if found != expected:
            at = next(
                (at for at, pair in enumerate(zip(found, expected, strict=False)) if pair[0] != pair[1]),
                min(len(found), len(expected)),
            )
            problems.append(
                f"{place}: {len(found)} bytes on broker {number}, {len(expected)} on broker {first}; "
                f"they part at byte {at}"
            )
    return problems
