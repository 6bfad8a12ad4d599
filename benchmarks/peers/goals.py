"""The goals: which figure of which cases, and what the ratio Ottla : Kafka may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.peers import figures, results
from benchmarks.peers.figures import Figure
from benchmarks.peers.limits import limit
from benchmarks.peers.results import Row

OTTLA, KAFKA = ("ottla", "ottla x3"), ("kafka 4.1", "kafka 4.1 x3")
PRODUCE = ("produce", "12 partitions", "none")
CONSUME = ("consume", "12 partitions", "none", "1 consumer, page cache")


@dataclass(frozen=True)
class Goal:
    """One row of the table of goals."""

    title: str
    workload: str
    cases: Sequence[str]
    """Parts that the name of a case has, all of them."""
    figure: Figure
    unit: str
    bound: float
    is_more_better: bool = False
    absolute: float | None = None
    """What Ottla is to reach by itself."""

    def is_met(self, ratio: float, value: float) -> bool:
        """Return whether a case is as good as it should be."""
        within = ratio >= self.bound if self.is_more_better else ratio <= self.bound
        return within and (self.absolute is None or value >= self.absolute)

    def wants(self, case: str) -> bool:
        """Return whether a case belongs to this goal."""
        return all(part in case for part in self.cases)

    def text(self) -> str:
        """Return the goal as a formula."""
        ratio = f"{'>=' if self.is_more_better else '<='} {self.bound}"
        return ratio if self.absolute is None else f"{ratio} and >= {self.absolute:,.0f}/s"


GOALS = [
    Goal("produce", "throughput", PRODUCE, figures.megabytes_per_s, "MB/s", 1.0, True),
    Goal("consume", "throughput", CONSUME, figures.megabytes_per_s, "MB/s", 1.0, True),
    Goal("CPU per GB produced", "throughput", PRODUCE, figures.cpu_per_gigabyte, "s", 1.0),
    Goal("CPU per GB consumed", "throughput", CONSUME, figures.cpu_per_gigabyte, "s", 1.0),
    Goal("one-record requests", "requests", ("50 conn",), figures.records_per_s, "/s", 0.5, True, 15_000),
    Goal("latency, p99", "latency", ("10,000 records/s",), figures.plain("p99_ms"), "ms", 1.0),
    Goal("replication 3, acks=all", "replication", ("produce",), figures.megabytes_per_s, "MB/s", 0.8, True),
    Goal("idle memory", "lifecycle", ("empty",), figures.plain("rss_bytes", 1e6), "MB", 0.2),
    Goal("memory under load", "throughput", PRODUCE, figures.plain("peak_rss_bytes", 1e6), "MB", 0.4),
    Goal("start, empty", "lifecycle", ("empty",), figures.plain("start_s"), "s", 0.15),
    Goal("start, 5,000 partitions", "lifecycle", ("clean start",), figures.plain("start_s"), "s", 0.5),
]


def has_goal(workload: str, case: str) -> bool:
    """Return whether some goal is about a case."""
    return any(goal.workload == workload and goal.wants(case) for goal in GOALS)


@dataclass(frozen=True)
class Outcome:
    """One case of a goal: what both did."""

    goal: Goal
    case: str
    ours: float
    theirs: float
    limits: str = ""
    """Whose limits were seen, of both: see limits.py."""

    @property
    def ratio(self) -> float:
        """Ottla : Kafka."""
        return self.ours / self.theirs if self.theirs else float("nan")

    @property
    def is_met(self) -> bool:
        """Whether that is as good as it should be."""
        return self.goal.is_met(self.ratio, self.ours)


def outcomes(goal: Goal, rows: list[Row]) -> list[Outcome]:
    """Return every case of a goal that both have done, in the order in which they were measured."""
    kept = [row for row in results.latest(results.full_if_any(rows)) if goal.wants(row["case"])]
    values = results.medians(kept, goal.figure)
    found = []
    for case in dict.fromkeys(row["case"] for row in kept):
        ours = next((values[case, peer] for peer in OTTLA if (case, peer) in values), None)
        theirs = next((values[case, peer] for peer in KAFKA if (case, peer) in values), None)
        if ours is not None and theirs is not None:
            seen = {limit(row) for row in kept if row["case"] == case and "generators" in row} - {""}
            found.append(Outcome(goal, case, ours, theirs, ", ".join(sorted(seen))))
    return found
