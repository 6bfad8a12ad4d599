"""`ottla doctor` on listeners of Apache Kafka with TLS and logins: right, and each way to get it wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.interop.test_client_security import authority, kafka

__all__ = ["authority", "kafka"]

WITHIN_S = 60
RIGHT = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": "s3cret"}


def examined(address: str, **options: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Return the exit code of the doctor, and what it found by check."""
    settings = [word for key, value in options.items() for word in ("-X", f"{key.replace('_', '.')}={value}")]
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", "doctor", "-b", address, *settings, "--format", "json"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, {each["check"]: each for each in json.loads(done.stdout)}


def test_tls_and_login_are_reported_when_they_are_right(kafka, authority) -> None:
    code, found = examined(
        kafka.listeners["SASLTLS"],
        security_protocol="SASL_SSL",
        ssl_ca_location=str(authority.certificate),
        **RIGHT,
    )
    assert {found[name]["state"] for name in ("DNS", "TCP", "SASL", "advertised")} == {"ok"}
    assert found["TLS"]["state"] == "warning", "the certificates of the tests are made for a few days"
    assert "TLSv1.3" in found["TLS"]["what"]
    assert "SCRAM-SHA-512" in found["SASL"]["what"]
    assert code == 0, [each for each in found.values() if each["state"] == "wrong"]


@pytest.mark.parametrize(
    ("listener", "options", "check", "error"),
    [
        ("TLS", {"security_protocol": "SSL"}, "TLS", "OTTLA-E105"),
        ("TLS", {}, "Kafka", "OTTLA-E103"),
        (
            "SASL",
            {"security_protocol": "SASL_PLAINTEXT", **RIGHT, "sasl.password": "no"},
            "SASL",
            "OTTLA-E106",
        ),
        ("SASL", {"security_protocol": "SSL"}, "TLS", "OTTLA-E105"),
    ],
)
def test_each_step_that_goes_wrong_is_named(kafka, listener, options, check, error) -> None:
    code, found = examined(kafka.listeners[listener], **options)
    assert (code, found[check]["state"], found[check]["code"]) == (1, "wrong", error)
    assert found["TCP"]["state"] == "ok"


def test_the_way_in_that_failed_is_reported_by_other_commands_too(kafka) -> None:
    login = [
        word for key, value in {**RIGHT, "sasl.password": "no"}.items() for word in ("-X", f"{key}={value}")
    ]
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", "topic", "list", "-b", kafka.listeners["SASL"],
         "-X", "security.protocol=SASL_PLAINTEXT", *login],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "refused the login" in done.stderr
    assert "OTTLA-E106" in done.stderr
