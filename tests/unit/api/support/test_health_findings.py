"""What a broker finds wrong with itself, and whether clients may be routed to it."""

from __future__ import annotations

import pytest

from ottla.api.support.health_facts import BrokerFacts, DiskFacts, MetadataFacts, PartitionFacts, Tally
from ottla.api.support.health_findings import CODES, findings, is_ready, report


def facts(**changes: object) -> BrokerFacts:
    made = BrokerFacts(1, 0, metadata=MetadataFacts(store="zookeeper", session_timeout_ms=6_000))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def tally(*names: str) -> Tally:
    made = Tally()
    for name in names:
        made.add(name)
    return made


def codes(found: BrokerFacts) -> list[tuple[str, str]]:
    return [(each.code, each.severity) for each in findings(found)]


def test_a_broker_that_is_well_has_no_findings() -> None:
    found = facts(disk=DiskFacts("/data", free_bytes=50, size_bytes=100))
    assert findings(found) == []
    assert (report(found)["ready"], report(found)["healthy"]) == (True, True)


def test_silence_of_the_store_is_a_warning_until_the_session_may_be_over() -> None:
    metadata = MetadataFacts(store="zookeeper", session_timeout_ms=6_000, silent_ms=1_500, age_ms=1_500)
    assert codes(facts(metadata=metadata)) == [("no-metadata-store", "warning")]
    assert is_ready(findings(facts(metadata=metadata)))
    metadata.silent_ms = 6_001
    assert codes(facts(metadata=metadata)) == [("no-metadata-store", "wrong")]
    assert not is_ready(findings(facts(metadata=metadata)))


def test_old_metadata_is_a_warning_although_the_store_answers() -> None:
    assert codes(facts(metadata=MetadataFacts(age_ms=9_000))) == [("stale-metadata", "warning")]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"metadata": MetadataFacts(has_session=False)}, "no-session"),
        ({"metadata": MetadataFacts(version=9, rolled_back_to=7, has_session=False)}, "metadata-rolled-back"),
        ({"disk": DiskFacts("/d", is_full=True)}, "disk-full"),
        ({"disk": DiskFacts("/d", offline_reason="fsync: EIO")}, "log-directory-offline"),
        ({"partitions": PartitionFacts(stalled=tally("t-0"), late_brokers=[3])}, "writes-stalled"),
        ({"loading_groups": 3}, "loading"),
    ],
)
def test_a_broker_that_cannot_serve_is_not_ready(change: dict[str, object], code: str) -> None:
    found = findings(facts(**change))
    assert [each.code for each in found] == [code]
    assert not is_ready(found)
    assert all(each.fix for each in found)


@pytest.mark.parametrize(
    ("change", "code", "severity"),
    [
        ({"partitions": PartitionFacts(under_min_isr=tally("t-0"))}, "under-min-isr", "wrong"),
        ({"partitions": PartitionFacts(awaiting_directory=tally("t-0"))}, "lost-disk", "wrong"),
        ({"disk": DiskFacts("/d", failed_replicas=tally("t-0"))}, "offline-replicas", "wrong"),
        ({"disk": DiskFacts("/d", free_bytes=9, size_bytes=100)}, "disk-low", "warning"),
        ({"stuck_groups": tally("g")}, "stuck-group", "warning"),
        ({"hanging_transactions": tally("t-0 (producer 7)")}, "hanging-transaction", "warning"),
        ({"unended_transactions": tally("x")}, "hanging-transaction", "warning"),
    ],
)
def test_other_findings_leave_a_broker_ready(change: dict[str, object], code: str, severity: str) -> None:
    found = findings(facts(**change))
    assert [(each.code, each.severity) for each in found] == [(code, severity)]
    assert is_ready(found)


def test_a_transaction_without_markers_is_described_and_one_without_a_coordinator_searched() -> None:
    (unended,) = findings(facts(unended_transactions=tally("etl")))
    assert "ottla txn describe etl" in unended.fix  # `ottla txn hanging` does not list it
    (hanging,) = findings(facts(hanging_transactions=tally("t-0 (producer 7)")))
    assert hanging.fix == "ottla txn hanging"


def test_the_broker_that_lost_its_disk_is_named() -> None:
    lost = PartitionFacts(awaiting_directory=tally("t-0"), without_directory=[3])
    (found,) = findings(facts(partitions=lost))
    assert found.fix.startswith("start broker 3 with its former disk")


def test_a_minority_of_servers_is_no_quorum() -> None:
    down = {"address": "z3:2181", "mode": "", "problem": "connection refused", "details": {}}
    up = {"address": "z1:2181", "mode": "leader", "problem": "", "details": {}}
    assert codes(facts(ensemble=[up, up, down])) == [("zookeeper-quorum", "warning")]
    assert codes(facts(ensemble=[up, down, down])) == [("zookeeper-quorum", "wrong")]


def test_the_worst_comes_first_and_every_code_is_declared() -> None:
    everything = facts(
        stuck_groups=tally("g"),
        loading_groups=1,
        disk=DiskFacts("/d", is_full=True),
        metadata=MetadataFacts(has_session=False, silent_ms=9_000, session_timeout_ms=6_000),
    )
    severities = [each.severity for each in findings(everything)]
    assert severities == sorted(severities, reverse=True)
    assert {each.code for each in findings(everything)} <= set(CODES)


def test_only_the_first_names_are_kept() -> None:
    many = tally(*(f"t-{number}" for number in range(100)))
    assert (many.count, len(many.names)) == (100, 20)
