"""The metadata store over TLS, both sides showing a certificate, with the keys that a broker is given."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.broker.settings import metadata_store
from ottla.broker.zookeeper_server import ZooKeeperFailed
from ottla.common.config.broker import BrokerConfig
from ottla.metadata.store import StoreUnavailable
from ottla.testing.broker_process import free_port
from ottla.testing.cluster_process import ZooKeeperProcess

OPENSSL = shutil.which("openssl")


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a key and a certificate of its own for 127.0.0.1; return the certificate, and both in one file."""
    key, cert, both = (folder / f"{name}.{kind}" for kind in ("key", "pem", "both.pem"))
    assert OPENSSL is not None
    command = [OPENSSL, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-subj", f"/CN={name}", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(key.read_text() + cert.read_text())
    return cert, both


@pytest.mark.skipif(OPENSSL is None, reason="needs the openssl program to make certificates")
async def test_a_broker_and_zookeeper_trust_each_other_by_certificate(tmp_path: Path) -> None:
    server_cert, server_both = certificate(tmp_path, "zookeeper")
    broker_cert, broker_both = certificate(tmp_path, "broker")
    secure_port = free_port()
    zookeeper = ZooKeeperProcess(
        tmp_path / "data",
        settings={
            "secureClientPort": str(secure_port),
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(server_both),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(broker_cert),
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need",
            "ssl.hostnameVerification": "false",
        },
    )
    try:
        zookeeper.start()
    except ZooKeeperFailed as error:
        if "pyspark" in str(error) or "Java" in str(error):
            pytest.skip(str(error))
        raise
    raw = {
        "zookeeper.connect": f"127.0.0.1:{secure_port}/tls",
        "zookeeper.connection.timeout.ms": "5000",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(server_cert),
        "zookeeper.ssl.keystore.location": str(broker_both),
    }
    with zookeeper:
        store = metadata_store(BrokerConfig(raw), tmp_path)
        await store.open()
        session = await store.open_session(1)
        assert await store.stand_for_election(session) == 1
        await store.close()
        distrusting = {**raw, "zookeeper.ssl.truststore.location": str(broker_cert)}
        distrusting["zookeeper.connection.timeout.ms"] = "1500"
        with pytest.raises(StoreUnavailable):
            await metadata_store(BrokerConfig(distrusting), tmp_path).open()
