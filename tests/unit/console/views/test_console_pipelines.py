"""A pipeline as the console shows it."""

from __future__ import annotations

from ottla.console.views.pipelines import _flows, _row
from ottla.spark.pipelines.run.state import DIED, FAILED, RUNNING, State, new_state


def state_of(**changes: int) -> State:
    found = new_state("shop", "/srv/shop", "local[2]", 0)
    found.state = RUNNING
    for name, value in changes.items():
        setattr(found, name, value)
    found.flows = [
        {"flow": "revenue", "state": RUNNING, "rows": 5, "rows_per_second": 120.0, "lag": 3},
        {"flow": "checked", "state": FAILED, "rows": 1, "rows_per_second": 0.0, "lag": 7},
    ]
    return found


def test_flows_of_a_driver_that_died_are_not_called_running() -> None:
    died = state_of(process_start=-1)
    assert [each["state"] for each in _flows(died)] == [DIED, FAILED]
    row = _row(died)
    assert (row["state"], row["is_alive"], row["rate"]) == (DIED, False, None)


def test_flows_of_a_driver_that_lives_are_as_it_says() -> None:
    alive = state_of()
    assert _flows(alive) == alive.flows
    assert _row(alive)["rate"] == 120.0
