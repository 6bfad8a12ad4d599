"""What brokers serve at /metrics is what clients have really done."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from tests.integration.scraping import Scrape, get, get_json, scrape, scrape_until
from tests.promql import asked

from ottla.cli.generated import grafana, prometheus
from ottla.common.listeners import Address
from ottla.metrics.catalogue import METRICS, PROCESS_SAMPLES
from ottla.testing.local_broker import OttlaBroker
from ottla.testing.local_cluster import LocalCluster

RECORDS, READ = 100, 40
PRODUCED_MS = 1_700_000_000_000
OTHER_SERVICES = ("ottla_registry_", "ottla_connect_", "kafka_connect_", "ottla_console_", "ottla_spark_")

OF_SECURED_BROKERS = {"ottla_logins_total", "ottla_denials_total"}
"""They begin with the first login and the first denial (test_before_authentication.py, test_acls.py)."""


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker(
        settings={"ottla.metrics.listen": "127.0.0.1:0", "ottla.slow.request.ms": "0"}
    ) as running:
        use(running)
        yield running


@pytest.fixture(scope="module")
def address(broker: OttlaBroker) -> Address:
    return metrics_address(broker)


def metrics_address(cluster: LocalCluster, node_id: int = 1) -> Address:
    addresses = cluster.broker(node_id).addresses
    assert addresses is not None
    assert addresses.metrics is not None
    return addresses.metrics


def use(broker: OttlaBroker) -> None:
    """Produce, consume in a group, commit and abort transactions, and be refused."""
    servers = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    broker.create_topic("orders", 2)
    plain = Producer(servers)
    for number in range(RECORDS):
        plain.produce("orders", b"v" * 50, partition=number % 2, timestamp=PRODUCED_MS)
    plain.flush(20)
    transactional = Producer({**servers, "transactional.id": "payments"})
    transactional.init_transactions(20)
    for commits in (True, False):
        transactional.begin_transaction()
        transactional.produce("orders", b"t", partition=0, timestamp=PRODUCED_MS)
        transactional.flush(20)
        transactional.commit_transaction(20) if commits else transactional.abort_transaction(20)
    consumer = Consumer(
        {**servers, "group.id": "billing", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    seen = 0
    while seen < READ:
        seen += len(consumer.consume(READ, 20))
    consumer.commit(offsets=[TopicPartition("orders", 1, READ)], asynchronous=False)
    consumer.close()
    with pytest.raises(Exception, match=r"MSG_SIZE_TOO_LARGE|too large"):
        refused = Producer({**servers, "message.max.bytes": 10_000_000})
        refused.produce("orders", b"x" * 2_000_000, on_delivery=_raise)
        refused.flush(20)


def _raise(error: KafkaError | None, _message: object) -> None:
    if error is not None:
        raise ValueError(str(error))


def test_records_and_bytes_are_those_of_the_clients(address: Address) -> None:
    found = scrape(address)
    name = "kafka_server_brokertopicmetrics_"
    assert found.value(f"{name}messagesin_total", topic="orders") == RECORDS + 2
    assert found.value(f"{name}bytesin_total", topic="orders") > RECORDS * 50
    assert found.value(f"{name}bytesout_total", topic="orders") > READ * 50
    assert found.value(f"{name}failedproducerequests_total", topic="orders") == 1
    assert found.value(f"{name}bytesrejected_total", topic="orders") > 2_000_000
    assert found.value(f"{name}messagesin_total") == sum(
        found.value(f"{name}messagesin_total", topic=topic)
        for topic in ("orders", "__consumer_offsets", "__transaction_state")
    )


def test_offsets_are_those_of_the_partitions(address: Address) -> None:
    found = scrape(address)
    half = RECORDS // 2
    # In partition 0: a committed and an aborted record, and a marker after each.
    for partition, end in (("0", half + 4), ("1", half)):
        labels = {"topic": "orders", "partition": partition}
        assert found.value("kafka_topic_partition_current_offset", **labels) == end
        assert found.value("kafka_log_log_logendoffset", **labels) == end
        assert found.value("kafka_topic_partition_oldest_offset", **labels) == 0
        assert found.value("kafka_topic_partition_leader", **labels) == 1
        assert found.value("kafka_topic_partition_leader_is_preferred", **labels) == 1
        assert found.value("kafka_topic_partition_under_replicated_partition", **labels) == 0
        assert found.value("kafka_log_log_size", **labels) > half * 50
    assert found.value("kafka_topic_partitions", topic="orders") == 2
    assert found.value("kafka_brokers") == 1


def test_lag_is_exact_in_records_and_in_seconds(broker: OttlaBroker, address: Address) -> None:
    found = scrape(address)
    labels = {"consumergroup": "billing", "topic": "orders", "partition": "1"}
    assert found.value("kafka_consumergroup_current_offset", **labels) == READ
    assert found.value("kafka_consumergroup_lag", **labels) == RECORDS // 2 - READ
    now_ms = broker.broker(1).clock.wall_ms()
    age_s = found.value("kafka_consumergroup_lag_seconds", **labels)
    assert 0 <= (now_ms - PRODUCED_MS) / 1000 - age_s < 60
    of_topic = {"consumergroup": "billing", "topic": "orders"}
    assert found.value("kafka_consumergroup_lag_sum", **of_topic) == RECORDS // 2 - READ
    assert found.value("kafka_consumergroup_lag_seconds_max", **of_topic) == age_s
    assert found.value("kafka_consumergroup_members", consumergroup="billing") == 0
    assert found.value("kafka_coordinator_group_groupmetadatamanager_numgroups") == 1


def test_requests_are_counted_by_api_with_how_long_they_took(address: Address) -> None:
    found = scrape(address)
    for api in ("Produce", "FetchConsumer", "Fetch", "JoinGroup", "OffsetCommit", "EndTxn", "InitProducerId"):
        count = found.value("ottla_request_seconds_count", request=api)
        assert count > 0
        assert found.total("kafka_network_requestmetrics_requests_total", request=api) == count
        assert found.value("kafka_network_requestmetrics_totaltimems_count", request=api) == count
        assert found.value("ottla_request_seconds_bucket", request=api, le="+Inf") == count
        assert found.has("kafka_network_requestmetrics_totaltimems", request=api, quantile="0.99")
    assert found.value("ottla_slow_requests_total") > 0  # of more than 0 ms: all but a few


def test_transactions_are_counted_by_state(address: Address) -> None:
    found = scrape_until(address, lambda it: it.value("ottla_transactions", state="CompleteAbort") == 1)
    assert found.value("ottla_transactions", state="CompleteAbort") == 1
    assert found.value("ottla_transactions", state="Ongoing") == 0
    assert found.value("ottla_transactions_prepared") == 0


def test_every_metric_that_is_declared_is_served_and_no_other(address: Address) -> None:
    found = scrape(address)
    declared = {name for each in METRICS.values() for name in each.sample_names}
    never_here = {"kafka_controller_controllerstats_leaderelectionrateandtimems"}  # it has no quantiles
    never_here |= {f"{each}_sum" for each in never_here} | OF_SECURED_BROKERS
    assert found.names <= declared | set(PROCESS_SAMPLES)
    assert declared - found.names == never_here


def test_every_expression_of_the_dashboard_and_the_alerts_has_something_to_show(address: Address) -> None:
    found = scrape(address)
    expressions = [rule[1] for rule in prometheus.rules_for(60)]
    for panel in json.loads(grafana.dashboard("Ottla"))["panels"]:
        expressions += [target["expr"] for target in panel.get("targets", ())]
    assert len(expressions) > 40
    for expression in expressions:
        metrics, _ = asked(expression)
        for name, labels in metrics.items():
            if name.startswith(OTHER_SERVICES) or name in OF_SECURED_BROKERS:
                continue  # tests/unit/cli/test_cli_generate.py compares these with what the services declare
            assert name == "up" or selects_some(found, name, labels - {"instance", "job"}), expression


def selects_some(found: Scrape, name: str, labels: set[str]) -> bool:
    return any(each == name and labels <= {key for key, _ in having} | {"topic"} for each, having in found)


def test_openmetrics_and_gzip_are_given_to_those_who_accept_them(address: Address) -> None:
    accept = "application/openmetrics-text;version=1.0.0"
    status, body, headers = get(address, "/metrics", **{"Accept": accept, "Accept-Encoding": "gzip"})
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert headers["content-type"].startswith("application/openmetrics-text")
    names = {family.name for family in parse_openmetrics(gzip.decompress(body).decode())}
    assert "kafka_consumergroup_lag_seconds" in names


def test_a_broker_that_runs_is_alive_and_ready(address: Address) -> None:
    status, said = get_json(address, "/healthz")
    assert (status, said["healthy"], said["log_directory"]) == (200, True, "online")
    status, said = get_json(address, "/readyz")
    assert (status, said["ready"], said["reasons"], said["findings"]) == (200, True, [], [])
    assert (said["session"], said["metadata_store"], said["metadata_age_seconds"]) == (True, "connected", 0)


def test_a_broken_disk_is_not_healthy_and_not_ready(tmp_path) -> None:
    with OttlaBroker(settings={"ottla.metrics.listen": "127.0.0.1:0"}) as broken:
        at = metrics_address(broken)
        broken.broker(1).log_directories.directories[
            0
        ].storage.offline_reason = "fsync of x: Input/output error"
        status, said = get_json(at, "/healthz")
        assert (status, said["healthy"]) == (503, False)
        status, said = get_json(at, "/readyz")
        assert status == 503
        (reason,) = said["reasons"]
        assert reason.endswith("is offline: fsync of x: Input/output error")
        assert scrape(at).value("kafka_log_logmanager_offlinelogdirectorycount") == 1
        broken.broker(1).log_directories.directories[0].storage.offline_reason = None


def test_a_full_disk_is_not_healthy_and_not_ready() -> None:
    with OttlaBroker(settings={"ottla.metrics.listen": "127.0.0.1:0"}) as full:
        at = metrics_address(full)
        full.broker(1).log_directories.directories[0].storage.is_full = True
        status, said = get_json(at, "/healthz")
        assert (status, said["healthy"], said["log_directory"]) == (503, False, "full")
        assert get_json(at, "/readyz")[0] == 503
        scraped = scrape(at)
        assert sum(value for (name, _), value in scraped.items() if name == "ottla_disk_full") == 1
        assert scraped.value("ottla_health_findings", code="disk-full") == 1
        full.broker(1).log_directories.directories[0].storage.is_full = False
        assert get_json(at, "/healthz")[0] == 200


def test_a_missing_replica_is_seen_on_the_brokers_that_lead() -> None:
    with LocalCluster(3, settings={"ottla.metrics.listen": "127.0.0.1:0"}) as cluster:
        cluster.create_topic("t", 3)
        cluster.wait_until_in_sync()
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        producer = Producer(servers)
        for number in range(30):
            producer.produce("t", b"x", partition=number % 3)
        producer.flush(20)
        name = "kafka_server_replicamanager_"
        before = [scrape(metrics_address(cluster, each)) for each in cluster.running]
        assert sum(each.value(f"{name}underreplicatedpartitions") for each in before) == 0
        assert sum(each.value(f"{name}leadercount") for each in before) == 3
        assert [each.value(f"{name}partitioncount") for each in before] == [3, 3, 3]
        assert (
            sum(each.value("kafka_controller_kafkacontroller_activecontrollercount") for each in before) == 1
        )
        # Every series about the cluster exists once: sums over brokers are right.
        assert sum(each.total("kafka_brokers") for each in before) == 3
        assert sum(each.total("kafka_topic_partitions") for each in before) == 3
        assert sum(each.total("kafka_topic_partition_current_offset") for each in before) == 30
        assert (
            sum(each.value("kafka_server_brokertopicmetrics_replicationbytesin_total") for each in before) > 0
        )
        assert sum(each.total("ottla_request_seconds_count", request="FetchFollower") for each in before) > 0

        dead = cluster.kill(next(each for each in cluster.running if each != cluster.controller()))
        alive = [metrics_address(cluster, each) for each in cluster.running]

        def missing() -> float:
            return sum(scrape(each).value(f"{name}underreplicatedpartitions") for each in alive)

        scrape_until(alive[0], lambda _: missing() == 3)
        assert missing() == 3
        after = [scrape(each) for each in alive]
        assert sum(each.total("kafka_brokers") for each in after) == 2
        assert sum(each.value("kafka_controller_kafkacontroller_fencedbrokercount") for each in after) == 1
        assert sum(each.value(f"{name}isrshrinks_total") for each in after) > 0
        assert sum(each.total("kafka_cluster_partition_underreplicated") for each in after) == 3
        cluster.start(dead)
        cluster.wait_until_in_sync()
        scrape_until(alive[0], lambda _: missing() == 0)
        assert missing() == 0


def test_many_partitions_are_cut_off_at_the_limit_and_counted(tmp_path) -> None:
    settings = {"ottla.metrics.listen": "127.0.0.1:0", "ottla.metrics.max.partitions": "500"}
    with OttlaBroker(settings=settings) as broker:
        broker.create_topic("many", 2_000)
        found = scrape(metrics_address(broker))
        shown = [key for key in found if key[0] == "kafka_log_log_size"]
        assert len(shown) == 500
        assert found.value("ottla_metrics_left_out", what="partitions") == 1_500
        assert found.value("kafka_server_replicamanager_partitioncount") == 2_000
        assert found.value("kafka_controller_kafkacontroller_globalpartitioncount") == 2_000
