"""What `ottla doctor` says about the security of a broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ottla.cli.checks.findings import FAILED, OK, WARNING
from ottla.cli.checks.security import check_config, weak_set_ups
from ottla.cli.security.certificates import DevelopmentCa
from ottla.cli.security.set_up import SetUp, properties_text, write_secret

NOW = datetime(2026, 11, 16, tzinfo=UTC)
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.mark.parametrize(
    ("values", "state", "words"),
    [
        ({}, OK, "no weak set-up"),
        ({"listeners": "PLAINTEXT://[::1]:9092"}, OK, "no weak set-up"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092", "advertised.listeners": "PLAINTEXT://a:9092"}, WARNING,
         "not encrypted"),
        ({"listeners": "PLAINTEXT://:9092"}, WARNING, "not encrypted"),
        ({"listeners": "SASL_PLAINTEXT://10.0.0.1:9092", "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
          "authorizer.class.name": AUTHORIZER}, FAILED, "PLAIN sends passwords in clear text"),
        ({"listeners": "IN://10.0.0.1:9092", "listener.security.protocol.map": "IN:SASL_PLAINTEXT",
          "listener.name.in.sasl.enabled.mechanisms": "PLAIN", "authorizer.class.name": AUTHORIZER}, FAILED,
         "PLAIN sends passwords in clear text"),
        ({"listeners": "SASL_SSL://10.0.0.1:9092"}, WARNING, "there is no authorizer"),
        ({"super.users": "User:admin;User:ANONYMOUS"}, FAILED, "is a super user"),
        ({"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}, WARNING,
         "everyone may use what has no ACL"),
        ({"listeners": "nonsense"}, FAILED, "is not NAME://HOST:PORT"),
    ],
)  # fmt: skip
def test_weak_set_ups_are_found(values: dict[str, str], state: str, words: str) -> None:
    (found,) = weak_set_ups(values)
    assert found.state == state
    assert words in found.what
    if state != OK and values.get("listeners") != "nonsense":
        assert found.fix


def made(folder: Path, days: int) -> Path:
    set_up = SetUp(folder, ("127.0.0.1",), 9092, "admin", "a", "b", "c", needs_certificate=True)
    set_up.write(DevelopmentCa("test", NOW, days))
    return folder / "server.properties"


def states(file: Path, now: datetime = NOW) -> dict[str, str]:
    return {found.check: found.state for found in check_config(file, now)}


def test_a_fresh_set_up_has_nothing_wrong(tmp_path: Path) -> None:
    assert states(made(tmp_path, 365)) == {"secrets": OK, "security": OK, "certificate": OK}


@pytest.mark.parametrize(("days", "state"), [(365, OK), (10, WARNING), (-3, FAILED)])
def test_certificates_that_expire_are_found(tmp_path: Path, days: int, state: str) -> None:
    file = made(tmp_path, 365)
    assert states(file, NOW + timedelta(days=365 - days))["certificate"] == state


def test_secrets_that_others_can_read_are_found(tmp_path: Path) -> None:
    file = made(tmp_path, 365)
    (tmp_path / "broker.pem").chmod(0o644)
    wrong = [found for found in check_config(file, NOW) if found.state != OK]
    assert [found.what for found in wrong] == [f"others can read {tmp_path / 'broker.pem'}"]
    file.chmod(0o640)
    assert [found.check for found in check_config(file, NOW) if found.state == FAILED] == [
        "secrets",
        "secrets",
    ]


def test_files_that_are_missing_or_broken_are_found(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    keys = {"ssl.keystore.location": str(tmp_path / "none.pem"), "ssl.truststore.location": "/no/ca.pem"}
    write_secret(file, properties_text(keys).encode())
    assert [found.state for found in check_config(file, NOW)].count(FAILED) == 3
    (tmp_path / "none.pem").write_text("nonsense")
    (tmp_path / "none.pem").chmod(0o600)
    assert [found.check for found in check_config(file, NOW) if found.state == FAILED] == [
        "certificate",
        "certificate",
    ]
    assert next(iter(check_config(tmp_path / "nothing", NOW))).state == FAILED


def test_the_listeners_of_apache_kafkas_controllers_are_not_expected_to_be_advertised() -> None:
    values = {
        "listeners": "SASL_SSL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "advertised.listeners": "SASL_SSL://127.0.0.1:9092",
        "controller.listener.names": "CONTROLLER",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
    assert [each.state for each in weak_set_ups(values)] == [OK]
