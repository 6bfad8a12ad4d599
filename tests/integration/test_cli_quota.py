"""`ottla quota` on a broker in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from ottla.cli.main import run
from ottla.testing.local_broker import OttlaBroker

Ottla = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as started:
        yield started


@pytest.fixture
def ottla(broker: OttlaBroker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ottla:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap_servers)
    monkeypatch.setenv("COLUMNS", "80")

    def command(*words: str) -> tuple[int, str, str]:
        code = run(words)
        out, err = capfd.readouterr()
        return code, out, err

    return command


def test_quotas_are_set_listed_and_removed(ottla: Ottla) -> None:
    assert ottla("quota", "list")[2].startswith("no quotas; set one with:")
    code, _, err = ottla(
        "quota", "set", "--user", "alice", "producer_byte_rate=1.5MB", "request_percentage=50"
    )
    assert code == 0
    assert err == "user alice: producer_byte_rate is now 1500000\nuser alice: request_percentage is now 50\n"
    ottla("quota", "set", "--user", "alice", "--client-defaults", "consumer_byte_rate=512KiB")
    ottla("quota", "set", "--ip", "10.0.0.1", "connection_creation_rate=20")
    assert ottla("quota", "list")[1].splitlines() == [
        "entity                           quota                     value",
        "ip 10.0.0.1                      connection_creation_rate  20",
        "user alice                       producer_byte_rate        1500000",
        "user alice                       request_percentage        50",
        "user alice, client-id <default>  consumer_byte_rate        524288",
    ]
    assert json.loads(ottla("quota", "list", "--client-defaults", "--format", "json")[1]) == [
        {"entity": {"user": "alice", "client-id": None}, "quotas": {"consumer_byte_rate": 524288.0}}
    ]
    assert "1 quota removed" in ottla("quota", "remove", "--user", "alice", "request_percentage")[2]
    assert json.loads(ottla("quota", "remove", "--user", "alice", "--format", "json")[1]) == {
        "entity": {"user": "alice"},
        "removed": ["producer_byte_rate"],
    }
    assert "0 quotas removed" in ottla("quota", "remove", "--user", "alice")[2]
    assert "user alice " not in ottla("quota", "list")[1]


def test_a_dry_run_sets_nothing(ottla: Ottla) -> None:
    code, out, _ = ottla(
        "quota", "set", "--user", "dry", "producer_byte_rate=1", "--dry-run", "--format", "json"
    )
    assert code == 0
    assert json.loads(out) == {"entity": {"user": "dry"}, "set": {"producer_byte_rate": 1.0}, "dry_run": True}
    assert "dry" not in ottla("quota", "list")[1]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["set", "producer_byte_rate=1"], 2, "whose quota?"),
        (["set", "--user", "a", "producer_byte_rat=1"], 2, "did you mean producer_byte_rate?"),
        (["set", "--user", "a", "producer_byte_rate=fast"], 2, "is not KEY=NUMBER"),
        (["set", "--user", "a", "--user-defaults", "producer_byte_rate=1"], 2, "exclude each other"),
        (["set", "--ip", "10.0.0.1", "--user", "a", "connection_creation_rate=1"], 2, "neither a user nor"),
        (["set", "--ip", "elsewhere", "connection_creation_rate=1"], 1, "not a valid IP"),
        (["set", "--user", "a", "connection_creation_rate=1"], 1, "Invalid configuration key"),
        (["remove", "--user", "a", "no_such_key"], 2, "there is no quota 'no_such_key'"),
    ],
)
def test_mistakes_are_explained(ottla: Ottla, words: list[str], code: int, message: str) -> None:
    found, _, err = ottla("quota", *words)
    assert (found, message in err) == (code, True), err
