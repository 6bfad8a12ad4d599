"""Listeners: what their texts mean, and what is refused."""

import socket

import pytest

from ottla.common.config.declaration import ConfigError
from ottla.common.listeners import Address, Listener, parse_listeners

PLAIN = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"


def test_one_listener_with_host_and_port() -> None:
    assert parse_listeners("PLAINTEXT://127.0.0.1:9092", None, PLAIN) == (
        Listener("PLAINTEXT", "127.0.0.1", 9092),
    )


def test_several_listeners_with_names_of_their_own() -> None:
    internal, external = parse_listeners(
        "internal://10.0.0.1:9092, EXTERNAL://:9093",
        "EXTERNAL://kafka.example.org:443,INTERNAL://10.0.0.1:9092",
        "INTERNAL:PLAINTEXT,external:plaintext",
    )
    assert (internal.name, internal.advertised) == ("INTERNAL", Address("10.0.0.1", 9092))
    assert (external.host, external.advertised) == ("", Address("kafka.example.org", 443))
    assert external.security_protocol == "PLAINTEXT"


def test_an_ipv6_address_stands_in_brackets() -> None:
    (listener,) = parse_listeners("PLAINTEXT://[::1]:9092", None, PLAIN)
    assert (listener.host, listener.port) == ("::1", 9092)
    assert str(listener) == "PLAINTEXT://[::1]:9092"


def test_a_listener_advertises_where_it_is_bound_unless_configured_otherwise() -> None:
    assert Listener("P", "localhost", 0).advertised_at(5000) == Address("localhost", 5000)
    assert Listener("P", "", 0, Address("example.org", 443)).advertised_at(5000) == Address(
        "example.org", 443
    )
    assert Listener("P", "", 0, Address("example.org", 0)).advertised_at(5000) == Address("example.org", 5000)


def test_a_listener_on_every_interface_advertises_the_machines_name() -> None:
    assert Listener("P", "", 9092).advertised_at(9092) == Address(socket.gethostname(), 9092)
    assert Listener("P", "", 9092, Address("", 9)).advertised_at(9092) == Address(socket.gethostname(), 9)


@pytest.mark.parametrize(
    "listeners",
    ["A://127.0.0.1:1,B://127.0.0.2:1", "A://0.0.0.0:1,B://[::]:1", "A://localhost:0,B://localhost:0"],
)
def test_listeners_may_share_a_port_on_different_interfaces(listeners: str) -> None:
    advertised = "A://a.example:1,B://b.example:1"
    assert len(parse_listeners(listeners, advertised, "A:PLAINTEXT,B:PLAINTEXT")) == 2


@pytest.mark.parametrize(
    ("listeners", "advertised", "protocols", "reason"),
    [
        ("127.0.0.1:9092", None, PLAIN, r"'127\.0\.0\.1:9092' is not NAME://HOST:PORT"),
        ("PLAINTEXT://host", None, PLAIN, "is not NAME://HOST:PORT"),
        ("PLAINTEXT://::1:9092", None, PLAIN, "is not NAME://HOST:PORT"),
        ("PLAINTEXT://host:-1", None, PLAIN, "is not NAME://HOST:PORT"),
        ("PLAINTEXT://host:65536", None, PLAIN, "port 65536 in .* is above 65535"),
        ("", None, PLAIN, "names no listener"),
        ("PLAINTEXT://:1,plaintext://:2", None, PLAIN, "two listeners are called PLAINTEXT"),
        ("A://h:1,B://h:1", None, "A:PLAINTEXT,B:PLAINTEXT", "A and B both listen on port 1"),
        ("A://h:1,B://:1", None, "A:PLAINTEXT,B:PLAINTEXT", "A and B both listen on port 1"),
        ("A://1.2.3.4:1,B://0.0.0.0:1", None, "A:PLAINTEXT,B:PLAINTEXT", "both listen on port 1"),
        ("INSIDE://h:1", None, PLAIN, r"add INSIDE:PLAINTEXT to listener\.security\.protocol\.map"),
        ("A://h:1", None, "A:PLAINTXT", r"'PLAINTXT' is not a security protocol; did you mean PLAINTEXT\?"),
        ("A://h:1", None, "A:HTTP", "it is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("A://h:1", None, "A", "'A' is not NAME:PROTOCOL"),
        ("PLAINTEXT://h:1", "PLAINTEXT://0.0.0.0:1", PLAIN, r"clients cannot connect to 0\.0\.0\.0:1"),
        ("PLAINTEXT://0.0.0.0:1", None, PLAIN, r"advertised\.listeners: must be set"),
        ("PLAINTEXT://[::]:1", None, PLAIN, r"clients cannot connect to \[::\]:1"),
        (
            "PLAINTEXT://h:1",
            "PLAINTEX://h:1",
            PLAIN,
            r"no listener is called PLAINTEX; did you mean PLAINTEXT\?",
        ),
        ("A://h:1,B://h:2", "A://h:1", "A:PLAINTEXT,B:PLAINTEXT", "has no address for listener B"),
    ],
)
def test_what_will_not_do_is_refused_with_the_reason(
    listeners: str, advertised: str | None, protocols: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_listeners(listeners, advertised, protocols)
