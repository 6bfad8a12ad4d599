"""The report of `make bench-peers` is made from files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.baseline import Costs
from benchmarks.peers import matrix, report, results
from benchmarks.peers.goals import GOALS, has_goal, outcomes
from benchmarks.peers.limits import limit
from benchmarks.peers.scale import HOUR_PART, QUICK_PART, Scale

CASE = "50 connections, depth 1"
REQUESTS = next(goal for goal in GOALS if goal.workload == "requests")


def row(peer: str, wall_s: float, **more: Any) -> dict[str, Any]:
    figures = {"records": 100_000, "bytes": 20_000_000, "wall_s": wall_s, "server_cpu_s": 3.0}
    about = {"case": CASE, "run": "2026-11-15T23:00:00Z", "is_quick": False, "generator_cpu_s": 0.5}
    return {"peer": peer, **about, **figures, **more}


def test_a_goal_compares_the_medians_of_the_last_run() -> None:
    older = [
        row("ottla", 100.0, run="2026-11-14T00:00:00Z"),
        row("kafka 4.1", 1.0, run="2026-11-14T00:00:00Z"),
    ]
    rows = [*older, *(row("ottla", wall_s) for wall_s in (4.0, 5.0, 9.0)), row("kafka 4.1", 2.5)]
    (outcome,) = outcomes(REQUESTS, rows)
    assert (outcome.ours, outcome.theirs, outcome.ratio) == (20_000, 40_000, 0.5)
    assert outcome.is_met


def test_a_ratio_that_is_good_enough_does_not_make_up_for_too_few_requests() -> None:
    (outcome,) = outcomes(REQUESTS, [row("ottla", 10.0), row("kafka 4.1", 10.0)])
    assert outcome.ratio == 1.0
    assert not outcome.is_met


def test_quick_runs_count_only_where_there_is_no_full_one() -> None:
    quick = [row("ottla", 1.0, is_quick=True), row("kafka 4.1", 1.0, is_quick=True)]
    assert [each.ours for each in outcomes(REQUESTS, quick)] == [100_000]
    assert [each.ours for each in outcomes(REQUESTS, [*quick, row("ottla", 2.0), row("kafka 4.1", 2.0)])] == [
        50_000
    ]


def test_the_report_fills_the_page_between_its_marks(tmp_path: Path) -> None:
    for each in (row("ottla", 5.0, generators=1, generator_cpu_s=4.9), row("kafka 4.1", 2.5)):
        results.append("requests", each, tmp_path)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write(page, tmp_path)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| one-record requests | >= 0.5 and >= 15,000/s | 50 connections, depth 1 | 20,000 /s |" in text
    assert "20,000 *" in text  # the generator's limit
    report.write(page, tmp_path)
    assert page.read_text() == text


def test_the_limit_is_the_generators_only_while_the_server_has_time_left() -> None:
    def seen(server_cpu_s: float, generator_cpu_s: float, others_cores: float = 0.0) -> str:
        spent = {
            "server_cpu_s": server_cpu_s,
            "generator_cpu_s": generator_cpu_s,
            "others_cores": others_cores,
        }
        return limit({"wall_s": 10.0, "generators": 1, "cores": 2, **spent})

    assert seen(3.0, 9.5) == "generator"
    assert seen(9.6, 9.6) == "machine"
    assert seen(3.0, 3.0, others_cores=1.3) == "machine"
    assert seen(3.0, 3.0) == ""


def test_a_cost_that_grew_is_flagged(tmp_path: Path) -> None:
    file, before, now = tmp_path / "baseline.json", Costs(), Costs()
    for name in ("same", "dearer", "tiny", "gone"):
        before.note(name, spent_s=1.0 if name != "tiny" else 0.05, amount=100_000)
    before.store(file)
    now._unit_s = before._unit_s
    for name, spent_s in (("same", 1.1), ("dearer", 1.5), ("tiny", 0.08), ("new", 9.0)):
        now.note(name, spent_s, amount=100_000)
    found = {each.name: each.is_worse for each in now.compared(file)}
    assert found == {"same": False, "dearer": True, "tiny": False}  # hundredths of a second are noise


def test_the_matrix_has_both_peers_and_their_ratio_in_a_cell() -> None:
    rows = [
        row(peer, wall_s, case=f"produce 1 KB, 12 partitions, acks=1, {kind}, librdkafka", generators=1)
        for peer, wall_s in (("ottla", 1.0), ("kafka 4.1", 2.0))
        for kind in ("none", "zstd")
    ]
    lines = list(matrix.tables(rows))
    assert "| 1 KB, 12 partitions, acks=1 | 20.0 : 10.0 (2.00) |  | 20.0 : 10.0 (2.00) |" in lines
    assert not any("consume" in line for line in lines)


def test_later_rounds_are_for_what_has_a_goal() -> None:
    assert has_goal("requests", CASE)
    assert not has_goal("requests", "500 connections, depth 1")
    scale = Scale(keeps=lambda case: has_goal("requests", case), cases=["depth 1$"])
    assert scale.wants(CASE)
    assert not any(scale.wants(case) for case in ("50 connections, depth 20", "1 connections, depth 1"))


def test_what_a_name_states_is_cut_only_by_a_quick_look() -> None:
    assert (Scale(HOUR_PART).count(3_000_000), Scale(HOUR_PART).exact(5_000)) == (1_500_000, 5_000)
    assert Scale(QUICK_PART).exact(100_000) == 5_000
