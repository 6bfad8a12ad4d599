import pytest

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError
from ottla.common.config.metrics_keys import automatic_host, metrics_place
from ottla.common.listeners import Listener


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("off", None),
        ("auto", ("10.0.0.1", 9644, False)),
        ("auto:9700", ("10.0.0.1", 9700, False)),
        ("127.0.0.1:9700", ("127.0.0.1", 9700, True)),
        (":0", ("", 0, True)),
        ("[::1]:9644", ("::1", 9644, True)),
    ],
)
def test_a_place_is_a_host_and_a_port_and_whether_it_must_be_that(text, place):
    assert metrics_place(text, "10.0.0.1") == place


@pytest.mark.parametrize("text", ["9644", "on", "a:b", "host:99999", "http://x:1/metrics:1", ""])
def test_anything_else_is_refused_with_the_forms_that_there_are(text):
    with pytest.raises(ConfigError, match=r"HOST:PORT, auto, auto:PORT or off"):
        BrokerConfig({"ottla.metrics.listen": text})


def test_the_port_of_a_listener_is_not_for_metrics():
    with pytest.raises(ConfigError, match="port 9092 is that of a listener"):
        BrokerConfig({"ottla.metrics.listen": ":9092"})


def test_a_broker_inside_another_program_serves_none():
    assert BrokerConfig({}).ottla_metrics_listen is None


@pytest.mark.parametrize(
    ("protocol", "host", "has_authorizer", "expected"),
    [
        ("PLAINTEXT", "0.0.0.0", False, "0.0.0.0"),
        ("PLAINTEXT", "0.0.0.0", True, "127.0.0.1"),
        ("SASL_SSL", "0.0.0.0", True, "127.0.0.1"),
        ("SASL_SSL", "", False, "127.0.0.1"),
        ("SSL", "10.0.0.5", False, "127.0.0.1"),
        ("SASL_SSL", "::1", True, "::1"),
    ],
)
def test_strangers_do_not_see_the_metrics_of_a_secured_broker(
    protocol: str, host: str, has_authorizer: bool, expected: str
) -> None:
    first = Listener("FIRST", host, 9092, security_protocol=protocol)
    assert automatic_host(first, has_authorizer=has_authorizer) == expected
