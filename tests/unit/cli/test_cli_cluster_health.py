"""The verdict on a cluster, from its metadata and from what brokers say of themselves."""

from __future__ import annotations

import pytest
from tests.unit.cli.test_cli_cluster import cluster

from ottla.cli.cluster.storage import _print_directories
from ottla.client.admin.cluster_admin import LogDirectory
from ottla.client.admin.cluster_health import Examination, check_restart, examine
from ottla.client.admin.health import BrokerReport

WELL = (1, (1, 2, 3), (1, 2, 3))


def report(node_id: int, *, is_controller: bool = False, skew_ms: float = 0, **more: object) -> BrokerReport:
    said = {"metadata": {"is_controller": is_controller}, "findings": [], "version": "1.0", **more}
    return BrokerReport(node_id, f"h:{node_id}", None, said, skew_ms, 1.0)


def reports(*more: BrokerReport) -> dict[int, BrokerReport]:
    found = {1: report(1, is_controller=True), 2: report(2), 3: report(3)}
    return found | {each.node_id: each for each in more}


def codes(found: Examination) -> list[str]:
    return [each.code for each in found.findings]


def test_green_when_all_is_well() -> None:
    found = examine(cluster(WELL), {"orders": 2}, reports())
    assert found.is_healthy
    assert codes(found) == []
    assert found.as_json()["healthy"] is True


def test_red_when_a_leader_says_that_writes_wait_although_the_metadata_is_green() -> None:
    stalled = {
        "code": "writes-stalled",
        "severity": "wrong",
        "what": "w",
        "fix": "f",
        "subjects": ["orders-0"],
    }
    found = examine(cluster(WELL), {"orders": 2}, reports(report(1, is_controller=True, findings=[stalled])))
    assert found.health.is_healthy
    assert not found.is_healthy
    assert codes(found) == ["writes-stalled"]
    assert found.findings[0].broker == 1


def test_a_dying_controller_is_named() -> None:
    found = examine(cluster(WELL), {}, reports(BrokerReport(1, "h:9091", "connection refused")))
    what = [each.what for each in found.findings]
    assert what[0].startswith("broker 1, the controller, at h:9091 does not answer: connection refused")
    assert what[0].endswith("it leads 1 partition, which cannot be written or read")
    assert found.findings[0].subjects == ("orders-0",)
    assert codes(found) == ["broker-down", "no-controller"]
    assert not found.is_healthy


def test_clocks_are_compared_with_each_other_not_with_ours() -> None:
    together = {each: report(each, is_controller=each == 1, skew_ms=9_000) for each in (1, 2, 3)}
    assert examine(cluster(WELL), {}, together).findings == []
    apart = examine(cluster(WELL), {}, reports(report(3, skew_ms=5_000)))
    assert codes(apart) == ["clock-skew"]
    assert "broker 3 is 5,000 ms ahead" in apart.findings[0].what
    assert apart.is_healthy  # a warning


def test_mixed_versions_are_a_warning() -> None:
    found = examine(cluster(WELL), {}, reports(report(2, version="1.1")))
    assert codes(found) == ["mixed-versions"]
    assert "1.0 on 1, 3, 1.1 on 2" in found.findings[0].what


def test_a_kafka_without_reports_is_judged_by_its_metadata() -> None:
    silent = {each: BrokerReport(each, "h") for each in (1, 2, 3)}
    assert examine(cluster(WELL), {"orders": 2}, silent).is_healthy
    assert not examine(cluster((1, (1, 2, 3), (1, 2))), {"orders": 2}, silent).is_healthy


def test_a_restart_is_safe_while_enough_others_are_in_sync() -> None:
    found = examine(cluster(WELL), {"orders": 2}, reports())
    assert check_restart(found, 2).is_safe
    short = examine(cluster((1, (1, 2, 3), (1, 2))), {"orders": 2}, reports())
    assert not check_restart(short, 2).is_safe  # one in-sync replica would be left
    assert check_restart(short, 3).is_safe  # it is the one that is missing


def test_a_broker_with_a_full_disk_is_not_restarted_since_it_would_not_start() -> None:
    full = {"code": "disk-full", "severity": "wrong", "what": "the disk is full", "fix": "", "subjects": []}
    found = examine(cluster(WELL), {"orders": 2}, reports(report(2, findings=[full])))
    assert check_restart(found, 2).reasons == ["broker 2: the disk is full"]


def test_what_no_waiting_helps_is_a_note() -> None:
    found = examine(cluster(WELL, (2, (2,), (2,))), {"orders": 2}, reports())
    checked = check_restart(found, 2)
    assert checked.is_safe
    assert "orders-1" in checked.notes[0]
    assert check_restart(found, 3).notes == []


def test_no_restart_without_a_controller_or_with_another_broker_down() -> None:
    found = examine(cluster(WELL), {"orders": 2}, {1: report(1), 2: report(2), 3: report(3)})
    assert not check_restart(found, 2).is_safe
    down = examine(cluster((1, (1, 2), (1, 2)), dead=3), {"orders": 1}, reports())
    assert not check_restart(down, 2).is_safe
    assert check_restart(down, 3).is_safe  # it is the one that is down


def test_a_log_directory_without_space_is_called_full(capsys: pytest.CaptureFixture[str]) -> None:
    _print_directories(
        {1: [LogDirectory("/a", None, 1 << 30, 0, {}), LogDirectory("/b", None, 1 << 30, 1 << 20, {})]}
    )
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()[1:]] == ["full", "online"]


def test_a_broker_that_is_gone_and_has_no_replicas_may_be_removed() -> None:
    info = cluster((1, (1, 3), (1, 3)), (1, (1, 2), (1,)), dead=2)
    (down,) = [each for each in examine(info, {}, reports()).findings if each.code == "broker-down"]
    assert "ottla cluster decommission" not in down.fix
    info = cluster((1, (1, 3), (1, 3)), dead=2)
    (down,) = [each for each in examine(info, {}, reports()).findings if each.code == "broker-down"]
    assert "ottla cluster decommission 2" in down.fix
