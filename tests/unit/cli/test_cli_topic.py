import json

import pytest
from kio.schema.errors import ErrorCode

from ottla.common.ids import uuid_text
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.records.records import Record, encode_batch
from ottla.wire.address import Address


def test_create_says_what_it_created_and_prints_nothing(ottla, peer):
    done = ottla("topic", "create", "orders", "--partitions", "3", "--set", "retention.ms=5")
    assert (done.code, done.out) == (0, b"")
    assert done.err == "orders: created, 3 partitions, replication factor 1\n"
    assert len(peer.topics["orders"].partitions) == 3
    assert peer.topics["orders"].configs == {"retention.ms": "5"}


def test_create_as_json_goes_to_standard_output(ottla, peer):
    done = ottla("topic", "create", "orders", "--format", "json")
    assert json.loads(done.out) == {
        "name": "orders",
        "topic_id": uuid_text(peer.topics["orders"].topic_id),
        "partitions": 1,
        "replication_factor": 1,
        "dry_run": False,
    }


def test_a_dry_run_creates_nothing(ottla, peer):
    assert "can be created" in ottla("topic", "create", "orders", "--dry-run").err
    assert peer.topics == {}


def test_creating_what_exists_fails_unless_that_is_fine(ottla, peer):
    peer.add_topic("orders", 2)
    failed = ottla("topic", "create", "orders")
    assert failed.code == 1
    assert failed.err.splitlines() == [
        "error: Topic 'orders' already exists.",
        "  see: ottla topic describe orders",
        "  more:  ottla explain OTTLA-E204",
    ]
    assert ottla("topic", "create", "orders", "--if-not-exists").code == 0


def test_an_unknown_config_comes_with_the_nearest_key(ottla, peer):
    failed = ottla("topic", "create", "orders", "--set", "retention.mss=5")
    assert failed.code == 1
    assert "error: Unknown topic config name: retention.mss\n  did you mean: retention.ms?\n" in failed.err


def test_a_setting_without_a_value_is_wrong_usage(ottla, peer):
    failed = ottla("topic", "create", "orders", "--set", "retention.ms")
    assert failed.code == 2
    assert "'retention.ms' is not key=value" in failed.err


def test_list_shows_topics_and_hides_internal_ones(ottla, peer):
    for name in ("orders", "__consumer_offsets", "a" * 249):
        peer.add_topic(name, 2)
    listed = ottla("topic", "list")
    assert [line.split() for line in listed.lines] == [
        ["topic", "partitions", "replicas"],
        ["a" * 249, "2", "1"],  # in a pipe nothing is cut
        ["orders", "2", "1"],
    ]
    assert len(ottla("topic", "list", "--all").lines) == 4


def test_an_empty_list_is_empty_and_says_what_to_do(ottla, peer):
    listed = ottla("topic", "list")
    assert (listed.code, listed.out) == (0, b"")
    assert "ottla topic create NAME" in listed.err
    assert json.loads(ottla("topic", "list", "--format", "json").out) == []


def test_describe_shows_leaders_replicas_offsets_and_overrides(ottla, peer):
    topic = peer.add_topic("orders", 2)
    topic.configs["retention.ms"] = "5"
    topic.partitions[1].append(encode_batch([Record(n, 0, None, b"", ()) for n in range(7)]))
    shown = ottla("topic", "describe", "orders")
    assert shown.lines[:4] == [
        "orders: 2 partitions, replication factor 1",
        f"id: {uuid_text(topic.topic_id)}",
        "configs:",
        "  retention.ms=5",
    ]
    assert [line.split() for line in shown.lines[5:8]] == [
        ["partition", "leader", "replicas", "isr", "start", "end"],
        ["0", "1", "1", "1", "0", "0"],
        ["1", "1", "1", "1", "0", "7"],
    ]


def test_describe_as_json_has_the_same_facts(ottla, peer):
    peer.add_topic("orders").partitions[0].leader = -1
    (topic,) = json.loads(ottla("topic", "describe", "orders", "--format", "json").out)
    assert topic["configs"] == {}
    assert topic["partitions"] == [
        {
            "partition": 0,
            "leader": None,
            "leader_epoch": 3,
            "replicas": [1],
            "isr": [1],
            "offline": [],
            "start_offset": None,
            "end_offset": None,
        }
    ]


def test_describe_can_show_every_config(ottla, peer):
    peer.add_topic("orders").configs["retention.ms"] = "5"
    lines = [line.split() for line in ottla("topic", "describe", "orders", "--configs").lines]
    assert ["cleanup.policy", "delete", "default"] in lines
    assert ["retention.ms", "5", "topic"] in lines


@pytest.mark.parametrize(
    "command", [("describe", "ordres"), ("delete", "ordres"), ("alter", "ordres", "-p", "9")]
)
def test_an_unknown_topic_comes_with_near_names(ottla, peer, command):
    peer.add_topic("orders")
    failed = ottla("topic", *command)
    assert failed.code == 1
    assert failed.err == (
        "error: there is no topic 'ordres'\n"
        "  did you mean: orders?\n"
        "  list them:  ottla topic list\n"
        "  create it:  ottla topic create ordres\n"
        "  more:  ottla explain OTTLA-E201\n"
    )


def test_of_several_topics_the_unknown_one_is_named_and_none_is_deleted(ottla, peer):
    peer.add_topic("orders")
    assert "there is no topic 'nope'" in ottla("topic", "delete", "orders", "nope").err
    assert "orders" in peer.topics


def test_alter_grows_sets_and_unsets(ottla, peer):
    topic = peer.add_topic("orders")
    topic.configs["cleanup.policy"] = "compact"
    done = ottla(
        "topic", "alter", "orders", "-p", "2", "--set", "retention.ms=7", "--unset", "cleanup.policy"
    )
    assert done.err == (
        "orders: retention.ms is now 7\n"
        "orders: cleanup.policy is reset to its default\n"
        "orders: 2 partitions now\n"
    )
    assert (len(topic.partitions), topic.configs) == (2, {"retention.ms": "7"})


def test_alter_changes_nothing_if_a_part_of_it_is_impossible(ottla, peer):
    topic = peer.add_topic("orders", 3)
    failed = ottla("topic", "alter", "orders", "-p", "2", "--set", "retention.ms=7")
    assert failed.code == 1
    assert "orders has 3 partitions already" in failed.err
    assert topic.configs == {}


def test_alter_without_a_change_is_wrong_usage(ottla, peer):
    assert ottla("topic", "alter", "orders").code == 2
    assert "both --set and --unset" in ottla("topic", "alter", "o", "--set", "a=1", "--unset", "a").err


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__ottla_spark_decisions"])
def test_delete_refuses_internal_topics(ottla, peer, name):
    peer.add_topic("orders")
    peer.add_topic(name)
    assert f"{name} is an internal topic" in ottla("topic", "delete", "orders", name, "--yes").err
    assert set(peer.topics) == {"orders", name}


def test_delete_does_not_ask_without_a_terminal(ottla, peer):
    peer.add_topic("orders")
    done = ottla("topic", "delete", "orders", "--format", "json")
    assert json.loads(done.out) == [{"name": "orders", "deleted": True}]
    assert peer.topics == {}


def test_delete_asks_on_a_terminal(ottla, peer, monkeypatch):
    peer.add_topic("orders")
    monkeypatch.setattr("ottla.cli.topic.command.is_terminal", lambda stream: True)
    monkeypatch.setattr("click.confirm", lambda *args, **kwargs: False)
    refused = ottla("topic", "delete", "orders")
    assert (refused.code, refused.err) == (1, "nothing deleted\n")
    assert "orders" in peer.topics
    assert ottla("topic", "delete", "orders", "--yes").code == 0


def test_no_broker_says_how_to_start_one(ottla, network):
    failed = ottla("topic", "list", "-b", "127.0.0.1:9092")
    assert failed.code == 1
    assert failed.err == (
        "error: no broker at 127.0.0.1:9092: connection refused\n"
        "  start one with: ottla serve\n"
        "  use another one with -b HOST:PORT or OTTLA_BOOTSTRAP\n"
        "  more:  ottla explain OTTLA-E101\n"
    )


def test_a_broker_elsewhere_cannot_be_started_from_here(ottla, network):
    assert "ottla serve" not in ottla("topic", "list", "--bootstrap-server", "far.example.org").err


def test_a_wrongly_advertised_address_is_explained(ottla, peer):
    peer.add_topic("orders")
    peer.advertised = {1: Address("inside", 9092)}
    failed = ottla("topic", "describe", "orders")
    assert "broker 1 advertises inside:9092, which cannot be reached (connection refused)" in failed.err
    assert "ottla serve --advertise HOST:PORT" in failed.err


def test_a_port_that_does_not_speak_kafka_is_called_that(ottla, network):
    network.listening["web", 80] = lambda frame: b"HTTP/1.1 400 Bad Request\r\n"
    failed = ottla("topic", "list", "-b", "web:80")
    assert failed.code == 1
    assert "web:80 does not answer like a Kafka broker" in failed.err


def test_a_bad_address_is_wrong_usage(ottla, network):
    failed = ottla("topic", "list", "-b", "host:port")
    assert failed.code == 2
    assert "'host:port' has no valid port" in failed.err


def test_an_error_without_words_is_put_into_words(ottla, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.DELETE_TOPICS, ErrorCode.topic_deletion_disabled)
    failed = ottla("topic", "delete", "orders")
    assert failed.err.startswith("error: delete.topic.enable is false (TOPIC_DELETION_DISABLED)\n")
    assert "--set delete.topic.enable=true" in failed.err


def test_names_may_be_patterns(ottla, peer):
    for name in ("logs-a", "logs-b", "users"):
        peer.add_topic(name, 1)
    shown = ottla("topic", "list", "logs-*")
    assert [line.split()[0] for line in shown.lines[1:]] == ["logs-a", "logs-b"]
    described = ottla("topic", "describe", "logs-?", "--format", "json")
    assert [each["name"] for each in json.loads(described.out)] == ["logs-a", "logs-b"]
    none = ottla("topic", "describe", "a*")
    assert none.code == 1
    assert none.err.startswith("error: no topic matches 'a*'\n  see the topics:  ottla topic list\n")
    tried = ottla("topic", "delete", "logs-*", "--dry-run")
    assert [line.split(":")[0] for line in tried.err.splitlines()] == ["logs-a", "logs-b"]


def test_partitions_are_added(ottla, peer):
    peer.add_topic("orders", 2)
    assert ottla("topic", "add-partitions", "orders", "--number", "3").err == "orders: now has 5 partitions\n"
