"""Two clusters compared: what is created, changed, impossible, and removed only when asked."""

from ottla.client.admin.acls import Acl
from ottla.client.admin.cluster_spec import (
    AddPartitions,
    ChangeConfigs,
    ChangeQuotas,
    ClusterSpec,
    CreateAcl,
    CreateTopic,
    DeleteAcl,
    DeleteTopic,
    TopicSpec,
    describe_change,
    plan_changes,
)

ALICE = (("user", "alice"),)
READ = Acl("User:alice", "read", "topic", "orders")
FOUND = ClusterSpec(
    topics={"orders": TopicSpec(3, 3, {"retention.ms": "5", "segment.ms": "9"}), "old": TopicSpec(1, 1)},
    brokers={"defaults": {"log.retention.ms": "1"}},
    acls=(READ,),
    quotas={ALICE: {"producer_byte_rate": 10.0}},
)


def test_a_cluster_as_declared_needs_no_change():
    plan = plan_changes(FOUND, FOUND, prune=True)
    assert (plan.changes, plan.impossible, plan.unmanaged) == ((), (), ())


def test_what_is_missing_is_created_and_what_differs_is_changed():
    wanted = ClusterSpec(
        topics={"orders": TopicSpec(6, 3, {"retention.ms": "7"}), "new": TopicSpec(2)},
        brokers={"1": {"num.io.threads": "2"}},
        acls=(READ, Acl("User:bob", "write", "topic", "orders")),
        quotas={ALICE: {"producer_byte_rate": 20.0}},
    )
    plan = plan_changes(wanted, FOUND)
    assert plan.changes == (
        ChangeConfigs("1", (("num.io.threads", None, "2"),), is_broker=True),
        AddPartitions("orders", 3, 6),
        ChangeConfigs("orders", (("retention.ms", "5", "7"),)),
        CreateTopic("new", TopicSpec(2)),
        ChangeQuotas(ALICE, (("producer_byte_rate", 10.0, 20.0),)),
        CreateAcl(Acl("User:bob", "write", "topic", "orders")),
    )
    assert plan.unmanaged == (
        ChangeConfigs("defaults", (("log.retention.ms", "1", None),), is_broker=True),
        ChangeConfigs("orders", (("segment.ms", "9", None),)),
        DeleteTopic("old"),
    )


def test_only_prune_removes_and_only_in_sections_that_the_file_has():
    wanted = ClusterSpec(topics={"orders": TopicSpec()}, acls=())
    plan = plan_changes(wanted, FOUND, prune=True)
    assert plan.changes == (
        DeleteAcl(READ),
        ChangeConfigs("orders", (("retention.ms", "5", None), ("segment.ms", "9", None))),
        DeleteTopic("old"),
    )
    assert plan_changes(ClusterSpec(), FOUND, prune=True).changes == ()


def test_fewer_partitions_and_another_replication_factor_are_impossible():
    wanted = ClusterSpec(topics={"orders": TopicSpec(2, 1)}, acls=(READ,))
    found = ClusterSpec(FOUND.topics, acls=None)
    assert [each.what for each in plan_changes(wanted, found).impossible] == [
        "topic orders: 3 partitions cannot become 2",
        "topic orders: replication factor 3 is not 1",
        "acls: the cluster has no authorizer",
    ]


def test_the_plan_reads_as_a_diff():
    changed = ChangeConfigs("orders", (("a", None, "1"), ("b", "1", "2"), ("c", "3", None)))
    assert describe_change(changed) == ["~ topic orders", "    + a = 1", "    ~ b: 1 -> 2", "    - c (is 3)"]
    assert describe_change(ChangeQuotas(ALICE, (("request_percentage", 10.0, 12.5),))) == [
        "~ quota of user alice",
        "    ~ request_percentage: 10 -> 12.5",
    ]
    assert describe_change(DeleteTopic("old")) == ["- topic old, with all its records"]
