"""Where the brokers that `ottla serve` runs serve their metrics, and how that is said."""

from pathlib import Path

import pytest

from ottla.broker import BrokerAddresses
from ottla.cli.serve import command
from ottla.cli.serve.cluster import ClusterPlan, metrics_of
from ottla.cli.serve.command import announce
from ottla.common.config.broker import BrokerConfig
from ottla.common.listeners import Address


@pytest.mark.parametrize(
    ("first", "third"),
    [
        ("off", "off"),
        ("auto", "auto:9646"),
        ("auto:9700", "auto:9702"),
        ("127.0.0.1:9700", "127.0.0.1:9702"),
        (":0", ":0"),
        ("nonsense", "nonsense"),
    ],
)
def test_every_broker_of_a_cluster_has_a_port_of_its_own(first, third):
    assert metrics_of(first, 3) == third


def test_a_broker_of_a_cluster_learns_its_place_once():
    settings = {"ottla.metrics.listen": "127.0.0.1:9700", "num.partitions": "2"}
    plan = ClusterPlan(
        3, Path("d"), "127.0.0.1", 9092, None, settings, None, "info", "json", "127.0.0.1:9700"
    )
    words = plan.arguments(2, "zk:2181")
    assert words[words.index("--metrics") + 1] == "127.0.0.1:9701"
    assert words[words.index("--log-format") + 1] == "json"
    assert not any("ottla.metrics.listen" in word for word in words)
    assert "num.partitions=2" in words


def test_the_banner_names_the_metrics_and_the_ready_line_stays_one_line(monkeypatch, capsys):
    monkeypatch.setattr(command, "is_terminal", lambda _: True)
    listeners = (("PLAINTEXT", Address("127.0.0.1", 9092)),)
    announce(BrokerAddresses(1, "cluster", "/data", listeners, Address("", 9644)))
    said = capsys.readouterr()
    assert said.out == "ready 127.0.0.1:9092\n"
    assert "http://127.0.0.1:9644/metrics" in said.err


def test_metrics_are_an_option_and_a_key(ottla, monkeypatch):
    from ottla import broker

    calls = []

    def run(raw, *, ephemeral, on_ready):
        BrokerConfig(raw)
        calls.append(dict(raw))
        return 0

    monkeypatch.setattr(broker, "run", run)
    assert ottla("serve", "--metrics", "127.0.0.1:9700").code == 0
    assert calls == [{"ottla.metrics.listen": "127.0.0.1:9700"}]
    both = ottla("serve", "--metrics", "off", "--set", "ottla.metrics.listen=off")
    assert both.code != 0
    assert "--metrics and --set ottla.metrics.listen exclude each other" in both.err.replace("\n", " ")
    wrong = ottla("serve", "--metrics", "everywhere")
    assert "ottla.metrics.listen" in wrong.err
    assert "HOST:PORT" in wrong.err
