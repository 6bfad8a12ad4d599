"""Pictures of the report, as PNG and SVG in docs/performance/, from the files of build/bench/.

python -m benchmarks.peers.plots        # needs matplotlib: pip install 'ottla[bench]'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.figure import Figure as Picture
from matplotlib.patches import Patch

from benchmarks.peers import results
from benchmarks.peers.figures import Figure, cpu_per_gigabyte, megabytes_per_s, plain, records_per_s
from benchmarks.peers.goals import GOALS, outcomes

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "performance"
OURS, THEIRS, MET = "#c2410c", "#1d4ed8", "#15803d"
COLOURS = {"ottla": OURS, "kafka 4": THEIRS, "kafka 3": "#93c5fd"}
OTHERS = ("#7c3aed", "#0f766e", "#a16207", "#be185d", "#4b5563")
"""Each peer has a colour of its own: those of the first table by the start of their names, others in turn."""
UNMEASURED = "#9ca3af"


pyplot.rcParams.update(
    {"svg.hashsalt": "ottla", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)


class Bars(NamedTuple):
    """One chart: its file, which cases it has and has not, its title and the unit of its axis."""

    name: str
    workload: str
    part: str
    title: str
    unit: str
    figure: Figure
    without: tuple[str, ...] = ()

    def shows(self, case: str) -> bool:
        """Return whether a case is in the chart; the page's table has all of them."""
        return self.part in case and not any(each in case for each in self.without)


BARS = (
    Bars("produce", "throughput", "produce", "Produce: more is better", "MB/s", megabytes_per_s),
    Bars(
        *("consume", "throughput", "consume", "One consumer, from the page cache: more is better"),
        *("MB/s", megabytes_per_s, ("8 consumers", "cold", "rawfetch")),
    ),
    Bars(
        *("cpu-produce", "throughput", "produce", "CPU time of the broker: less is better"),
        *("CPU seconds per GB produced", cpu_per_gigabyte),
    ),
    Bars(
        *("requests", "requests", "connection", "One record per request: more is better"),
        *("requests/s", records_per_s),
    ),
    Bars(
        *("latency", "latency", "records/s", "From produce() to poll(): less is better"),
        *("99th percentile, ms", plain("p99_ms")),
    ),
    Bars(
        *("streams", "streams", "produce", "One stream, other brokers: more is better"),
        *("records/s", records_per_s),
    ),
)


def main() -> None:
    """Draw all pictures for which there are results."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, picture in _pictures():
        save(name, picture)
        print(FOLDER / f"{name}.png")


def save(name: str, picture: Picture) -> None:
    """Write a picture as PNG and SVG."""
    picture.tight_layout()
    for kind in ("png", "svg"):
        picture.savefig(
            FOLDER / f"{name}.{kind}",
            dpi=110,
            bbox_inches="tight",
            metadata={"Date": None} if kind == "svg" else None,
        )
    pyplot.close(picture)


def _pictures() -> Iterator[tuple[str, Picture]]:
    yield "goals", goals(_worst_cases())
    for chart in BARS:
        rows = results.latest(results.full_if_any(results.read(chart.workload)))
        values = results.medians([row for row in rows if chart.shows(row["case"])], chart.figure)
        if values:
            yield chart.name, bars(chart, values)
    if rows := results.read("soak"):
        yield "soak", soak([row for row in rows if row["run"] == rows[-1]["run"]])


def _worst_cases() -> list[tuple[str, float, float, bool]]:
    found = []
    for goal in GOALS:
        each = outcomes(goal, results.read(goal.workload))
        if each:
            worst = (min if goal.is_more_better else max)(each, key=lambda one: one.ratio)
            found.append((f"{goal.title} ({goal.text()})", worst.ratio, worst.goal.bound, worst.is_met))
    return found


def goals(found: Sequence[tuple[str, float, float, bool]]) -> Picture:
    """Draw every goal's worst case (title, ratio, bound, whether it is met) as a point beside its bound."""
    picture, axes = pyplot.subplots(figsize=(8, 0.36 * len(found) + 1.2))
    for place, (_, ratio, bound, is_met) in enumerate(reversed(found)):
        colour = MET if is_met else OURS
        axes.plot([bound, ratio], [place, place], color=colour, linewidth=2, alpha=0.4, zorder=1)
        axes.plot([bound] * 2, [place - 0.3, place + 0.3], color="black", linewidth=1.5, zorder=2)
        axes.scatter(ratio, place, color=colour, s=45, zorder=3)
        note = f"{ratio:.2f}" if is_met else f"{ratio:.2f}, missed"
        axes.annotate(note, (max(ratio, bound), place), (8, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(found)), [title for title, *_ in reversed(found)])
    axes.set_xscale("log")
    ticks = [0.05, 0.1, 0.2, 0.5, 1, 2, 4]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.margins(x=0.12)
    axes.grid(axis="x", color="#e5e7eb", zorder=0)
    axes.set_xlabel("Ottla : Kafka 4.1, in the worst case; the black mark is the goal")
    axes.set_title("Goals: green is met", loc="left", fontweight="bold")
    return picture


def bars(chart: Bars, values: dict[tuple[str, str], float]) -> Picture:
    """Draw a chart of figures by case and peer; where a peer has none, it says so."""
    cases = list(dict.fromkeys(case for case, _ in values))
    peers = sorted({peer for _, peer in values}, key=lambda peer: ("ottla" not in peer, peer))
    colours = _colours(peers)
    picture, axes = pyplot.subplots(figsize=(8, 0.2 * len(cases) * len(peers) + 1.4))
    width = 0.8 / len(peers)
    for index, peer in enumerate(peers):
        for place, case in enumerate(cases):
            _bar(axes, place + index * width, width * 0.9, values.get((case, peer)), colours[peer])
    axes.set_yticks([place + 0.4 - width / 2 for place in range(len(cases))], short_names(cases))
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}")
    axes.set_xlabel(chart.unit)
    axes.set_title(chart.title, loc="left", fontweight="bold", pad=26)
    handles = [Patch(color=colours[peer], label=peer) for peer in peers]
    axes.legend(
        handles=handles, frameon=False, loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=len(peers)
    )
    return picture


def _bar(axes: Any, place: float, height: float, value: float | None, colour: str) -> None:
    text = "not measured" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.2f}"
    if value is not None:
        axes.barh(place, value, height, color=colour)
    grey = UNMEASURED if value is None else "black"
    axes.annotate(
        text, (value or 0, place), (3, 0), textcoords="offset points", va="center", fontsize=7, color=grey
    )


def _colours(peers: Sequence[str]) -> dict[str, str]:
    rest = iter(OTHERS)
    return {
        peer: next((COLOURS[start] for start in COLOURS if peer.startswith(start)), None) or next(rest)
        for peer in peers
    }


def short_names(cases: Sequence[str]) -> list[str]:
    """Return the cases without the words that all of them have, and `1 connection` in the singular."""
    split = [case.split(", ") for case in cases]
    shared = set(split[0]).intersection(*split[1:]) if len(split) > 1 else set()
    names = [", ".join(part for part in parts if part not in shared) for parts in split]
    verbs = {name.partition(" ")[0] for name in names}
    if len(names) > 1 and len(verbs) == 1 and verbs <= {"produce", "consume"}:
        names = [name.partition(" ")[2] for name in names]
    return [re.sub(r"\b1 (connection|partition|consumer)s\b", r"1 \1", name) for name in names]


def soak(rows: Sequence[dict[str, Any]]) -> Picture:
    """Draw memory, descriptors and latency over the minutes of a run."""
    picture, panels = pyplot.subplots(3, 1, figsize=(8, 5), sharex=True)
    minutes = [row["minute"] for row in rows]
    panels[0].plot(minutes, [row["rss_bytes"] / 1e6 for row in rows], color=OURS)
    panels[0].set_ylabel("resident MB")
    panels[1].plot(minutes, [row["descriptors"] for row in rows], color=OURS)
    panels[1].set_ylabel("descriptors")
    for key, color in (("p50_ms", OURS), ("p99_ms", THEIRS)):
        panels[2].plot(minutes, [row[key] for row in rows], color=color, label=key[:3])
    panels[2].set_yscale("log")
    panels[2].set_ylabel("latency, ms")
    panels[2].legend(frameon=False)
    panels[0].set_title("Soak: memory, descriptors and latency", loc="left", fontweight="bold")
    panels[2].set_xlabel(f"minutes at {rows[-1]['rate']:,} records/s")
    for panel in panels[:2]:
        panel.set_ylim(0, panel.get_ylim()[1] * 1.15)
    return picture


if __name__ == "__main__":
    main()
