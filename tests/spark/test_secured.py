"""Spark on a secured cluster: the driver and the workers log in over SASL_SSL with SCRAM, under ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.secure_stage import PASSWORD, SCRAM_MODULE, USER, SecureCluster, secure_broker

from ottla.client import Consumer
from ottla.client.admin import Acl

ROWS = 300
MECHANISM = "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    more = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker",
    }
    with secure_broker(tmp_path_factory.mktemp("security"), **more) as started:
        with started.admin() as admin:
            for topic in ("numbers", "copies", "secrets"):
                admin.create_topic(topic, partitions=2)
            kinds = ("topic", "group", "transactional_id")  # the sink has a topic of decisions, too
            acls = [Acl(f"User:{USER}", "all", each, "*") for each in kinds]
            acls.append(Acl(f"User:{USER}", "all", "topic", "secrets", permission="deny"))
            assert admin.create_acls(acls) == [None] * len(acls)
        yield started


@pytest.fixture
def options(secure: SecureCluster) -> dict[str, str]:
    """What a user writes, as in the security guide: PEM texts, which reach executors on any machine."""
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    return {
        "kafka.bootstrap.servers": secure.cluster.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": secure.certificates.ca.read_text(),
        "kafka.sasl.mechanism": MECHANISM,
        "kafka.sasl.jaas.config": f'{SCRAM_MODULE} required username="{USER}" password="{password}";',
    }


def test_batch_and_stream_read_and_write_over_tls_with_scram(
    spark: Any, secure: SecureCluster, options: dict[str, str], tmp_path: Path
) -> None:
    own = {
        "bootstrap_servers": secure.cluster.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(secure.certificates.ca),
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    rows = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("ottla").options(**options, topic="numbers").mode("append").save()
    read = spark.read.format("ottla").options(**options, subscribe="numbers").load()
    assert read.count() == ROWS
    stream = spark.readStream.format("ottla").options(
        **options, subscribe="numbers", startingOffsets="earliest"
    )
    query = (
        stream.load()
        .select("value")
        .writeStream.format("ottla")
        .options(**options, topic="copies", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    with Consumer(**own, group_id="check", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["copies"])
        copied = {int(consumer.getone(timeout_ms=30_000).value or b"") for _ in range(ROWS)}
    assert copied == set(range(ROWS))
    assert f"User:{USER}" in {each.principal for each in secure.cluster.broker(1).server.connections}


def test_a_wrong_password_is_refused_with_the_reason(spark: Any, options: dict[str, str]) -> None:
    wrong = {**options, "kafka.sasl.jaas.config": f'{SCRAM_MODULE} required username="{USER}" password="no";'}
    with pytest.raises(Exception, match=r"(?i)refused the login|authentication"):
        spark.read.format("ottla").options(**wrong, subscribe="numbers").load().count()


def test_a_topic_that_the_user_may_not_read_is_refused_by_its_name(
    spark: Any, options: dict[str, str]
) -> None:
    with pytest.raises(Exception, match="not authorized to describe topic secrets"):
        spark.read.format("ottla").options(**options, subscribe="secrets").load().count()
