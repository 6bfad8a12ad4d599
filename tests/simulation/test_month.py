"""A month of operations: health, readiness, metrics and logs are right every day, and no record is lost."""

from __future__ import annotations

import pytest

from ottla.client.admin import cluster_health
from ottla.client.admin.cluster_health import Examination
from ottla.testing.month import main
from ottla.testing.simulation.month import run_month

DAYS = 18
INCIDENT = "ZooKeeper has no quorum, and a broker dies"


def test_a_month_passes_and_every_day_is_reported_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1"]) == 0, capsys.readouterr().out
    out = capsys.readouterr().out
    assert "all is well" in out
    assert out.count(" ok\n") == DAYS


def test_health_that_is_always_green_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Examination, "is_healthy", property(lambda self: True))
    outcome, month = run_month(1, only=INCIDENT)
    names = {each.name for each in outcome.violations}
    assert {"green-while-blocked", "not-reported"} <= names
    assert [day.name for day in month.days_run if day.violations] == [INCIDENT]


def test_health_without_the_brokers_own_reports_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was once: the metadata alone decided."""
    monkeypatch.setattr(cluster_health, "_own_findings", lambda reports: iter(()))
    monkeypatch.setattr(cluster_health, "_controller", lambda info, reports: iter(()))
    outcome, _ = run_month(1, only=INCIDENT)
    assert any("nothing can be written" in str(each) for each in outcome.violations)
