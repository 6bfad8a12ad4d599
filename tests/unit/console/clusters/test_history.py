from pathlib import Path

from ottla.console.clusters.history import MAX_POINTS, History


def test_samples_are_kept_in_order_and_survive_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "h.sqlite"
    history = History(file)
    history.add("a", 1000, {"lag": 5, "rate": 1})
    history.add("a", 2000, {"lag": 7})
    history.add("b", 1500, {"lag": 99})
    history.close()
    again = History(file)
    found = again.read("a", ["lag", "rate", "none"], 0, 10_000)
    assert found == {"lag": [(1000, 5.0), (2000, 7.0)], "rate": [(1000, 1.0)], "none": []}
    assert again.latest("a", "lag") == 7
    assert again.latest("a", "none") is None
    again.forget_before(1500)
    assert again.read("a", ["lag"], 0, 10_000) == {"lag": [(2000, 7.0)]}
    again.close()


def test_many_samples_are_averaged() -> None:
    history = History()
    for at in range(5_000):
        history.add("a", at * 10, {"lag": at})
    found = history.read("a", ["lag"], 0, 50_000)["lag"]
    assert len(found) <= MAX_POINTS + 2
    assert found[0][1] < found[-1][1]
    history.close()
