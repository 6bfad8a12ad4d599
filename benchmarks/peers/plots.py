"""Pictures of the report, as PNG and SVG in docs/performance/, from the files of build/bench/.

python -m benchmarks.peers.plots        # needs matplotlib: pip install 'ottla[bench]'
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.figure import Figure as Picture

from benchmarks.peers import results
from benchmarks.peers.figures import Figure, cpu_per_gigabyte, megabytes_per_s, plain, records_per_s
from benchmarks.peers.goals import GOALS, outcomes

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "performance"
OURS, THEIRS, OTHER = "#c2410c", "#475569", "#94a3b8"
BARS: list[tuple[str, str, str, str, Figure]] = [
    ("produce", "throughput", "produce", "MB/s", megabytes_per_s),
    ("consume", "throughput", "consume", "MB/s", megabytes_per_s),
    ("cpu-produce", "throughput", "produce", "server CPU seconds per GB", cpu_per_gigabyte),
    ("requests", "requests", "connections", "requests/s", records_per_s),
    ("latency", "latency", "records/s", "p99, ms", plain("p99_ms")),
    ("streams", "streams", "produce", "records/s", records_per_s),
]


def main() -> None:
    """Draw all pictures for which there are results."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    pyplot.rcParams.update(
        {"svg.hashsalt": "ottla", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    for name, picture in _pictures():
        picture.tight_layout()
        for kind in ("png", "svg"):
            picture.savefig(
                FOLDER / f"{name}.{kind}", dpi=110, metadata={"Date": None} if kind == "svg" else None
            )
        pyplot.close(picture)
        print(FOLDER / f"{name}.png")


def _pictures() -> Iterator[tuple[str, Picture]]:
    yield "goals", _goals()
    for name, workload, part, unit, figure in BARS:
        if (picture := _bars(workload, part, unit, figure)) is not None:
            yield name, picture
    if (picture := _soak()) is not None:
        yield "soak", picture


def _goals() -> Picture:
    """Every goal's worst case as a ratio, beside its bound."""
    found = []
    for goal in GOALS:
        each = outcomes(goal, results.read(goal.workload))
        if each:
            worst = (min if goal.is_more_better else max)(each, key=lambda one: one.ratio)
            found.append((f"{goal.title} ({goal.text()})", worst))
    picture, axes = pyplot.subplots(figsize=(8, 0.4 * len(found) + 1))
    for place, (_, worst) in enumerate(reversed(found)):
        axes.barh(place, worst.ratio, color="#15803d" if worst.is_met else OURS)
        axes.plot([worst.goal.bound] * 2, [place - 0.4, place + 0.4], color="black")
        axes.text(worst.ratio, place, f" {worst.ratio:.2f}", va="center")
    axes.set_yticks(range(len(found)), [title for title, _ in reversed(found)])
    axes.set_xscale("log")
    axes.set_xlabel("Ottla : Kafka 4.1, worst case; the black mark is the goal")
    return picture


def _bars(workload: str, part: str, unit: str, figure: Figure) -> Picture | None:
    rows = results.latest(results.full_if_any(results.read(workload)))
    values = results.medians([row for row in rows if part in row["case"]], figure)
    if not values:
        return None
    cases = list(dict.fromkeys(case for case, _ in values))
    peers = sorted({peer for _, peer in values}, key=lambda peer: ("ottla" not in peer, peer))
    picture, axes = pyplot.subplots(figsize=(8, 0.22 * len(cases) * len(peers) + 1.2))
    width = 0.8 / len(peers)
    for index, peer in enumerate(peers):
        places = [place + index * width for place, case in enumerate(cases) if (case, peer) in values]
        heights = [values[case, peer] for case in cases if (case, peer) in values]
        color = OURS if "ottla" in peer else THEIRS if "kafka 4" in peer else OTHER
        axes.barh(places, heights, width * 0.9, label=peer, color=color)
    axes.set_yticks([place + 0.4 - width / 2 for place in range(len(cases))], cases)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.legend(frameon=False)
    return picture


def _soak() -> Picture | None:
    rows = results.read("soak")
    rows = [row for row in rows if row["run"] == rows[-1]["run"]] if rows else []
    if not rows:
        return None
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
    panels[2].set_xlabel(f"minutes at {rows[-1]['rate']:,} records/s")
    for panel in panels[:2]:
        panel.set_ylim(bottom=0)
    return picture


if __name__ == "__main__":
    main()
