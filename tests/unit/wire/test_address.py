import pytest

from ottla.wire.address import Address, parse_address, parse_addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost", Address("localhost", 9092)),
        ("10.0.0.7:9093", Address("10.0.0.7", 9093)),
        (" broker-1.example.org:1 ", Address("broker-1.example.org", 1)),
        ("[::1]", Address("::1", 9092)),
        ("[fe80::1]:65535", Address("fe80::1", 65535)),
    ],
)
def test_an_address_is_a_host_and_maybe_a_port(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":9092",
        "host:",
        "host:0",
        "host:65536",
        "host:-1",
        "host:x",
        "::1",
        "[::1",
        "[::1]9092",
        "http://a:1",
        "a b",
    ],
)
def test_what_is_no_address_is_refused_with_the_text(text):
    with pytest.raises(ValueError, match=r"HOST|port|ambiguous"):
        parse_address(text)


def test_an_ipv6_address_is_written_in_brackets():
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert parse_address(str(Address("::1", 9092))) == Address("::1", 9092)


def test_a_list_has_commas_and_forgives_a_trailing_one():
    assert parse_addresses("a:1, b:2,") == (Address("a", 1), Address("b", 2))


def test_an_empty_list_is_refused():
    with pytest.raises(ValueError, match="no address"):
        parse_addresses(" , ")
