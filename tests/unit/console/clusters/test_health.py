from ottla.client.admin import BrokerInfo, ClusterInfo
from ottla.client.admin.health import BrokerReport
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.common.lag import Lag
from ottla.console.clusters.health import findings, sentence
from ottla.console.clusters.snapshot import Snapshot
from ottla.wire.address import Address


def snapshot(*partitions: PartitionInfo, alive: tuple[int, ...] = (1, 2), controller: int = 1) -> Snapshot:
    brokers = {each: BrokerInfo(each, Address("h", 9092), None, each in alive) for each in (1, 2)}
    topic = TopicInfo("orders", None, False, {each.index: each for each in partitions})
    return Snapshot(ClusterInfo("c", controller, brokers, {"orders": topic}), 0)


def partition(index: int, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> PartitionInfo:
    return PartitionInfo(index, leader, 0, (1, 2), isr)


def test_a_healthy_cluster_is_one_calm_sentence() -> None:
    assert findings(snapshot(partition(0))) == []
    assert sentence([]).severity == "ok"


def test_the_worst_comes_first_with_what_to_do() -> None:
    found = findings(snapshot(partition(0, isr=(1,)), partition(1, leader=-1), alive=(1,)))
    assert [each.severity for each in found] == ["critical", "critical", "warning"]
    assert "Broker 2" in found[0].what
    assert "orders-1" in found[1].what
    assert "orders-0" in found[2].what
    assert all(each.todo for each in found)
    assert "2 more below" in sentence(found).what


def test_a_missing_controller_and_a_late_group() -> None:
    found = findings(snapshot(partition(0), controller=9), {"billing": Lag(10, 3600.0), "ok": Lag(0, 0.0)})
    assert [each.severity for each in found] == ["critical", "notice"]
    assert "billing" in found[1].what


def test_what_brokers_say_of_themselves_is_shown() -> None:
    own = {
        "code": "writes-stalled",
        "severity": "wrong",
        "what": "writes are stalled",
        "fix": "start broker 2",
    }
    twice = {**own, "code": "disk-full"}
    reports = {
        1: BrokerReport(1, "h:1", None, {"findings": [own, twice]}),
        2: BrokerReport(2, "h:2", "no answer within 5 s"),
    }
    found = findings(snapshot(partition(0)), {}, reports)
    assert [each.severity for each in found] == ["critical", "warning"]
    assert found[0].todo == "start broker 2"
    assert "no answer" in found[1].what
