"""`ottla debug bundle`: what is in it, and that no secret is."""

import json
import tarfile

import pytest

from ottla.cli.debug.redact import REDACTED, Redactor

SECRETS = ("hunter2!", "s3cr3t-of-broker", "tok-abcdef", "MIIEvQIBADANBg", "letmein99", "dG9rZW4tdmFsdWU=")
CONFIG = """listeners=SASL_SSL://127.0.0.1:9093
ssl.keystore.password = hunter2!
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \\
    required username="broker" password="s3cr3t-of-broker" user_alice="letmein99";
delegation.token.secret.key=tok-abcdef
log.retention.hours=24
"""
LOG = """INFO starting with password=hunter2! and {"sasl.password": "letmein99"}
WARN somebody typed s3cr3t-of-broker as a user name
DEBUG Authorization: Bearer dG9rZW4tdmFsdWU=
DEBUG GET http://admin:letmein99@registry:8081/subjects
-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBg
-----END PRIVATE KEY-----
INFO ready: 127.0.0.1:9093
"""


def unpacked(path):
    with tarfile.open(path) as archive:
        return {
            entry.name.partition("/")[2]: archive.extractfile(entry).read().decode()
            for entry in archive.getmembers()
        }


def test_a_bundle_has_everything_and_no_secret(ottla, ottla_broker, tmp_path, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP", ottla_broker.bootstrap_servers)
    assert ottla("topic", "create", "orders").code == 0
    (tmp_path / "server.properties").write_text(CONFIG)
    (tmp_path / "ottla.log").write_text(LOG)
    out = tmp_path / "case.tar.gz"
    done = ottla(
        *("debug", "bundle", "-o", str(out), "--log", str(tmp_path / "ottla.log")),
        *("--config", str(tmp_path / "server.properties"), "--metrics", "http://127.0.0.1:1/metrics"),
    )
    assert (done.code, done.out.decode().strip()) == (0, str(out))
    assert out.stat().st_mode & 0o077 == 0
    files = unpacked(out)
    assert {"CONTENTS.txt", "versions.json", "config/server.properties", "logs/ottla.log"} <= files.keys()
    assert {"cluster.json", "topics.json", "groups.json", "broker-1.json"} <= files.keys()
    assert "orders" in json.loads(files["topics.json"])
    assert [name for name in SECRETS if any(name in text for text in files.values())] == []
    assert "log.retention.hours=24" in files["config/server.properties"]
    assert "INFO ready: 127.0.0.1:9093" in files["logs/ottla.log"]
    assert f"http://admin:{REDACTED}@registry:8081/subjects" in files["logs/ottla.log"]
    assert json.loads(files["versions.json"])["ottla"]
    assert all(name in files["CONTENTS.txt"] for name in files)
    assert "http://127.0.0.1:1/metrics" in files["problems.txt"]
    assert "not collected: metrics of http://127.0.0.1:1/metrics" in done.err


def test_without_a_broker_the_rest_is_collected(ottla, tmp_path):
    out = tmp_path / "alone.tar.gz"
    done = ottla("debug", "bundle", "-o", str(out), "--metrics", "nonsense", "-b", "127.0.0.1:1")
    assert done.code == 0
    assert "the cluster at 127.0.0.1:1" in unpacked(out)["problems.txt"]


def test_it_replaces_no_file(ottla, tmp_path):
    (tmp_path / "there.tar.gz").write_text("mine")
    failed = ottla("debug", "bundle", "-o", str(tmp_path / "there.tar.gz"))
    assert failed.code == 1
    assert "exists already" in failed.err
    assert (tmp_path / "there.tar.gz").read_text() == "mine"


@pytest.mark.parametrize(
    "harmless",
    [
        "kafka_server_BrokerTopicMetrics_Count 5",
        "delegation.token.max.lifetime.ms is a key",
        "the password was wrong",
        '{"topic": "orders", "partition": 0}',
    ],
)
def test_what_is_no_secret_stays(harmless):
    assert Redactor().text(harmless) == harmless


def test_documents_lose_the_values_of_secret_names_and_stay_json():
    redactor = Redactor()
    redactor.learn({"sasl.password": "hunter2!"})
    document = {"sasl.password": "x", "token.ms": {"value": "5"}, "note": "is hunter2!", "list": [1, None]}
    assert redactor.document(document) == {
        "sasl.password": REDACTED,
        "token.ms": {"value": "5"},
        "note": f"is {REDACTED}",
        "list": [1, None],
    }
