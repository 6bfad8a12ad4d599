"""Faults with security on: brokers and clients authenticate over TLS, and ACLs say what clients may do."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from tests.cluster.load import client_config
from tests.cluster.secured_cluster import SecuredCluster
from tests.cluster.trial import TOPIC, Trial

from ottla.testing.cluster_process import wait_until

pytestmark = pytest.mark.cluster

IN_SYNC_AGAIN_S = 20.0


def test_kill_9_of_the_leader_and_of_the_controller_with_security_on(tmp_path: Path) -> None:
    with SecuredCluster(tmp_path) as cluster, Trial(cluster, clients=cluster.clients) as trial:
        for victim in (trial.leader, cluster.controller):
            number = victim()
            cluster.kill(number)
            print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
            cluster.start(number)
            cluster.wait_until_in_sync(IN_SYNC_AGAIN_S)
        # What the client may not do, it still may not do: the ACLs outlived both.
        admin = AdminClient(client_config(cluster.clients))
        with pytest.raises(KafkaException) as refused:
            admin.delete_topics([TOPIC])[TOPIC].result(30)
        assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def serial_of(cluster: SecuredCluster, address: str) -> str:
    """Return the serial number of the certificate that a broker presents."""
    host, _, port = address.rpartition(":")
    context = cluster.certificates.client_context()
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
    ):
        found = encrypted.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


def test_a_rolling_change_of_certificates_under_load(tmp_path: Path) -> None:
    """One broker reads its new certificate while it runs, the others when they are restarted."""
    with SecuredCluster(tmp_path) as cluster, Trial(cluster, clients=cluster.clients) as trial:
        for number, address in zip(cluster.brokers, cluster.clients.split(","), strict=True):
            before = serial_of(cluster, address)
            cluster.renew(number)
            if number > 1:
                cluster.restart(number)
            wait_until(lambda a=address, b=before: _has_changed(cluster, a, b), IN_SYNC_AGAIN_S)
            cluster.wait_until_in_sync(IN_SYNC_AGAIN_S)
            trial.wait_for_acks()
        assert trial.longest_wait_s < 10, "clients hardly notice"


def _has_changed(cluster: SecuredCluster, address: str, before: str) -> bool:
    try:
        return serial_of(cluster, address) != before
    except (OSError, ssl.SSLError):
        return False
