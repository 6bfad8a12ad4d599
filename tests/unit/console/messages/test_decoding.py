import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.console.messages.making import made

from ottla.console.messages.decoding import MessageDecoder
from ottla.console.messages.json_path import JsonPath
from ottla.console.messages.masking import Mask

DECODER = MessageDecoder()


@pytest.mark.parametrize(
    ("raw", "how", "kind", "text"),
    [
        (None, "auto", "null", "null"),
        (b'{"a": 1}', "auto", "json", '{"a": 1}'),
        (b"42", "auto", "json", "42"),
        (b"hello", "auto", "text", "hello"),
        ("Tromsø".encode(), "auto", "text", "Tromsø"),
        (b"{broken", "auto", "text", "{broken"),
        (b"\xff\x00", "auto", "hex", "00000000  ff 00" + " " * 44 + ".."),
        (b"\x00\x01", "auto", "hex", "00000000  00 01" + " " * 44 + ".."),
        (gzip.compress(b'{"a": 1}', mtime=0), "auto", "gzip json", '{"a": 1}'),
        (b"\x1f\x8bnot gzip", "auto", "hex", None),
        (b"ab", "hex", "hex", "00000000  61 62" + " " * 44 + "ab"),
        (b"ab", "base64", "base64", "YWI="),
        (b"\xff", "text", "text", "\ufffd"),
        (b"", "auto", "text", ""),
    ],
)
def test_bytes_become_something_to_read(raw: bytes | None, how: str, kind: str, text: str | None) -> None:
    found = DECODER.decode(raw, how)
    assert found.kind == kind
    assert text is None or found.text == text


def test_large_values_are_cut_and_not_parsed() -> None:
    found = DECODER.decode(b'{"a": "' + b"x" * 1000 + b'"}', limit=100)
    assert found.is_cut
    assert found.size == 1009
    assert len(found.text) == 100
    assert not found.is_structured


def test_a_gzip_bomb_is_unpacked_up_to_a_limit() -> None:
    bomb = gzip.compress(b"\0" * (200 * 1024 * 1024), 9)
    assert len(DECODER.decode(bomb, limit=10 * 1024 * 1024).text) < 64 * 1024 * 1024


@given(st.binary(max_size=300), st.sampled_from(["auto", "json", "text", "hex", "base64", "registry"]))
def test_nothing_is_raised(raw: bytes, how: str) -> None:
    assert DECODER.decode(raw, how).size == len(raw)


def test_paths_find_and_replace() -> None:
    data = {"a": [{"b": 1}, {"b": 2}], "c d": {"b": 3}}
    assert list(JsonPath.parse("$.a[*].b").find(data)) == [1, 2]
    assert sorted(JsonPath.parse("$..b").find(data)) == [1, 2, 3]
    assert list(JsonPath.parse("$['c d'].b").find(data)) == [3]
    assert JsonPath.parse("$..b").replace(data, lambda _: "-") == {
        "a": [{"b": "-"}, {"b": "-"}],
        "c d": {"b": "-"},
    }
    assert data["a"][0] == {"b": 1}, "the original is left alone"
    with pytest.raises(ValueError, match="not part of a path"):
        JsonPath.parse("$.a b")


def test_masks_hide_values_keys_and_headers() -> None:
    order = {"card": {"number": "4111"}, "id": 1}
    message = made(
        order,
        b"secret",
        "ord*:$.card.number",
        "orders:key",
        "orders:header.token",
        headers=(("token", b"t"),),
    )
    assert "4111" not in message.value.text
    assert '"id": 1' in message.value.text
    assert "secret" not in str(message.as_json())
    assert message.header("token") == "••••••"
    assert made(order, b"k", "payments:$.card").value.data == order


def test_what_cannot_be_looked_into_is_masked_as_a_whole() -> None:
    assert "4111" not in made(b"card=4111", b"k", "orders:$.card").value.text
    for wrong in ("orders", "orders:", ":key", "orders:card"):
        with pytest.raises(ValueError):
            Mask.parse(wrong)
