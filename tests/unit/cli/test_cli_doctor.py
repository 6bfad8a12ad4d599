import json
import resource

import pytest

from ottla.cli.checks import machine
from ottla.cli.checks.findings import FAILED, OK, SKIPPED, WARNING, Finding
from ottla.common.java import JavaNotFound


def findings(outcome):
    return {each["check"]: each for each in json.loads(outcome.out)}


def test_without_a_broker_the_machine_is_looked_at_all_the_same(ottla, tmp_path):
    done = ottla("doctor", "--no-broker", "--data", str(tmp_path), "--format", "json")
    assert done.code == 0
    found = findings(done)
    assert set(found) == {"disk space", "disk speed", "file limits", "Java", "Spark"}
    assert found["disk space"]["state"] == OK


def test_a_broker_that_is_named_and_does_not_answer_is_wrong(ottla, tmp_path):
    done = ottla("doctor", "-b", "127.0.0.1:1", "--data", str(tmp_path), "--format", "json")
    assert done.code == 1
    tcp = findings(done)["TCP"]
    assert (tcp["state"], tcp["code"]) == (FAILED, "OTTLA-E101")
    assert "connection refused" in tcp["what"]


def test_a_name_that_leads_nowhere_is_reported_before_anything_else(ottla, tmp_path):
    done = ottla("doctor", "-b", "nowhere.invalid:9092", "--data", str(tmp_path), "--format", "json")
    found = findings(done)
    assert found["DNS"]["state"] == FAILED
    assert "TCP" not in found


def test_a_data_directory_that_cannot_be_written_is_wrong(monkeypatch, tmp_path):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(machine.tempfile, "NamedTemporaryFile", refuse)
    assert machine.disk_speed(tmp_path).state == FAILED


def test_a_disk_that_is_nearly_full_is_wrong(monkeypatch, tmp_path):
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: type("U", (), {"free": 5, "total": 2**40})())
    found = machine.disk_space(tmp_path / "not" / "there" / "yet")
    assert (found.state, found.kind.code) == (FAILED, "OTTLA-E304")


@pytest.mark.parametrize(("hard", "state"), [(1024, WARNING), (100_000, OK), (resource.RLIM_INFINITY, OK)])
def test_few_open_files_are_a_warning(hard, state):
    assert machine.file_limits(1024, hard).state == state


def test_no_java_is_a_warning_because_only_spark_and_zookeeper_need_it(monkeypatch):
    def find_java():
        raise JavaNotFound("none")

    monkeypatch.setattr(machine, "find_java", find_java)
    found, version = machine.java()
    assert (found.state, found.kind.code, version) == (WARNING, "OTTLA-E401", None)


def test_an_old_java_is_wrong(monkeypatch):
    monkeypatch.setattr(machine, "_java_version", lambda _: 8)
    monkeypatch.setattr(machine, "find_java", lambda: "/usr/bin/java")
    assert machine.java()[0].state == FAILED
    assert machine.spark(8).state == FAILED


def test_without_spark_its_check_is_skipped(monkeypatch):
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    assert machine.spark(17).state == SKIPPED


def test_a_finding_says_what_to_do():
    found = Finding("TCP", FAILED, "refused", "start one: ottla serve")
    assert found.as_row()[2] == "refused; start one: ottla serve"
