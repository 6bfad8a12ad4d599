"""What a backup has and the cluster has not is created; what differs is told."""

from dataclasses import replace
from uuid import UUID

from ottla.common.config.broker import BrokerConfig
from ottla.controller.machine import restore_metadata
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import (
    AclCreated,
    BrokerChanged,
    BrokerRegistered,
    ClientQuotaChanged,
    ClusterCreated,
    ConfigChanged,
    ConfigResource,
    DelegationTokenSet,
    Endpoint,
    PartitionCreated,
    ProducerIdsAllocated,
    ScramCredentialChanged,
    ScramSecretCreated,
    TopicCreated,
    TopicDeleted,
)

CONFIG = BrokerConfig({"node.id": "1"})
ORDERS, OWN = UUID(int=1), UUID(int=2)
ENDPOINT = (Endpoint("PLAINTEXT", "h", 9092),)
ALICE = ScramCredentialChanged("alice", "SCRAM-SHA-256", "c2FsdA==", "c3RvcmVk", "c2VydmVy", 4096)
BACKUP = EMPTY.apply(
    [
        ClusterCreated("old"),
        BrokerRegistered(7, 1, None, ENDPOINT),
        TopicCreated("orders", ORDERS),
        PartitionCreated(ORDERS, 0, 7, 3, (7, 8), (7, 8)),
        PartitionCreated(ORDERS, 1, 8, 3, (8, 7), (7, 8)),
        TopicCreated("__consumer_offsets", OWN),
        PartitionCreated(OWN, 0, 7, 0, (7,), (7,)),
        ConfigChanged(ConfigResource.TOPIC, "orders", "retention.ms", "5"),
        ConfigChanged(ConfigResource.GROUP, "g", "consumer.session.timeout.ms", "50000"),
        ClientQuotaChanged((("user", "alice"),), "producer_byte_rate", 10.0),
        AclCreated(2, "orders", 3, "User:alice", "*", 3, 3),
        DelegationTokenSet("t", "User:a", "User:a", (), 1, 2, 3),
        ScramSecretCreated("c2VjcmV0"),
        ALICE,
        ProducerIdsAllocated(9_000),
    ],
    50,
)


def cluster(*node_ids: int) -> ClusterImage:
    brokers = [BrokerRegistered(each, each, None, ENDPOINT) for each in node_ids]
    return EMPTY.apply([ClusterCreated("new"), *brokers])


def restored(image: ClusterImage, **options: bool) -> tuple[ClusterImage, dict[tuple[str, str], str]]:
    decision = restore_metadata(image, BACKUP, CONFIG, **options)
    return image.apply(decision.records), {(each.kind, each.name): each.action for each in decision.results}


def test_a_new_cluster_gets_everything_but_the_brokers_own():
    after, actions = restored(cluster(7, 8))
    assert after.topics.keys() == {"orders"}
    assert after.topics["orders"].topic_id == ORDERS
    assert [each.replicas for each in after.topics["orders"].partitions] == [(7, 8), (8, 7)]
    assert after.configs == BACKUP.configs
    assert after.client_quotas == BACKUP.client_quotas
    assert after.acls == BACKUP.acls
    assert after.tokens == BACKUP.tokens
    assert after.scram_credentials == BACKUP.scram_credentials
    assert (after.scram_secret, after.next_producer_id) == (BACKUP.scram_secret, 9_000)
    assert after.cluster_id == "new"
    assert actions["topic", "orders"] == "created"


def test_restoring_again_changes_nothing():
    after, _ = restored(cluster(7, 8))
    decision = restore_metadata(after, BACKUP, CONFIG)
    assert decision.records == ()
    assert {each.action for each in decision.results} == {"same"}


def test_a_topic_that_was_deleted_in_the_cluster_gets_another_id():
    """A broker that was away at that time has its log, and would take it for that of the new topic."""
    same = replace(cluster(7, 8), cluster_id="old")
    assert restored(same)[0].topics["orders"].topic_id != ORDERS
    again = BACKUP.apply(
        [TopicCreated("more", UUID(int=3)), PartitionCreated(UUID(int=3), 0, 7, 0, (7,), (7,))]
    )
    once = cluster(7, 8).apply(restore_metadata(cluster(7, 8), again, CONFIG).records, 1)
    deleted = once.apply([TopicDeleted(ORDERS)], 2)
    twice = deleted.apply(restore_metadata(deleted, again, CONFIG).records, 3)
    assert twice.topics["orders"].topic_id not in (ORDERS, UUID(int=3))
    assert twice.topics["more"].topic_id == UUID(int=3)


def test_ids_are_not_kept_while_a_broker_is_away_which_may_have_the_log_of_an_earlier_restore():
    once, _ = restored(cluster(7, 8, 9))
    deleted = once.apply([TopicDeleted(ORDERS), BrokerChanged(9, 9, fenced=True, shutting_down=False)])
    assert restored(deleted)[0].topics["orders"].topic_id != ORDERS
    back = deleted.apply([BrokerChanged(9, 9, fenced=False, shutting_down=False)])
    assert restored(back)[0].topics["orders"].topic_id == ORDERS


def test_other_brokers_get_the_replicas_as_far_as_there_are_enough():
    after, _ = restored(cluster(1))
    assert [each.replicas for each in after.topics["orders"].partitions] == [(1,), (1,)]
    after, _ = restored(cluster(1, 2, 3))
    assert {len(each.replicas) for each in after.topics["orders"].partitions} == {2}


def test_what_differs_is_changed_only_when_asked():
    before = cluster(7, 8).apply(
        [
            TopicCreated("orders", OWN),
            PartitionCreated(OWN, 0, 7, 0, (7, 8), (7, 8)),
            ConfigChanged(ConfigResource.TOPIC, "orders", "retention.ms", "9"),
            ScramCredentialChanged("alice", "SCRAM-SHA-256", "eA==", "eQ==", "eg==", 4096),
        ]
    )
    after, actions = restored(before)
    assert actions["topic", "orders"] == "differs"
    assert actions["partitions", "orders"] == "differs"
    assert len(after.topics["orders"].partitions) == 1
    assert actions["configs", "topic orders"] == "differs"
    assert actions["user", "alice (SCRAM-SHA-256)"] == "differs"
    assert after.topic_overrides("orders")["retention.ms"] == "9"
    after, actions = restored(before, overwrite=True)
    assert after.topic_overrides("orders")["retention.ms"] == "5"
    assert len(after.topics["orders"].partitions) == 2
    assert after.scram_credentials == BACKUP.scram_credentials


def test_the_backup_of_another_cluster_changes_no_topic_that_has_only_the_name_in_common():
    """It got more partitions, for ever, and a retention.ms that deleted its records."""
    before = cluster(7, 8).apply(
        [TopicCreated("orders", OWN), PartitionCreated(OWN, 0, 7, 0, (7, 8), (7, 8))]
    )
    after, actions = restored(before)
    assert after.topics["orders"] == before.topics["orders"]
    assert after.topic_overrides("orders") == {}
    assert actions["configs", "topic orders"] == "differs"
    mine = cluster(7, 8).apply(
        [TopicCreated("orders", ORDERS), PartitionCreated(ORDERS, 0, 7, 0, (7, 8), (7, 8))]
    )
    after, actions = restored(mine)
    assert len(after.topics["orders"].partitions) == 2
    assert after.topic_overrides("orders") == {"retention.ms": "5"}


def test_a_config_that_the_cluster_does_not_accept_fails_alone():
    bad = BACKUP.apply([ConfigChanged(ConfigResource.BROKER, "7", "no.such.key", "1")])
    decision = restore_metadata(cluster(7, 8), bad, CONFIG)
    failed = [each for each in decision.results if each.action == "failed"]
    assert [(each.kind, each.name) for each in failed] == [("configs", "broker 7")]
    assert cluster(7, 8).apply(decision.records).topics.keys() == {"orders"}
