import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.console.messages.making import TOPIC, made

from ottla.console.messages.decoding import MAX_UNPACKINGS, Decoded, MessageDecoder, hex_dump, hex_row
from ottla.console.messages.json_path import JsonPath
from ottla.console.messages.masking import Mask, Masking
from ottla.console.messages.message import Message, Reading
from ottla.spark.pipelines.records import SOURCE_TOPIC

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


def test_gzip_within_gzip_ends() -> None:
    raw = b"{}"
    for _ in range(2_000):
        raw = gzip.compress(raw, 1)
    assert DECODER.decode(raw).kind == "gzip " * MAX_UNPACKINGS + "hex"


@pytest.mark.parametrize("raw", [rb'{"a": "\ud800"}', b"[" * 900 + b"]" * 900, rb'"\udc00"'])
@pytest.mark.parametrize("masks", [(), ("orders:$.b",)])
def test_what_json_can_say_and_text_cannot_is_shown(raw: bytes, masks: tuple[str, ...]) -> None:
    message = made(raw, raw, *masks, headers=(("\udcff", b"a name that is no text"),))
    shown = [message.key.pretty(), message.value.pretty(), json.dumps(message.as_json(), ensure_ascii=False)]
    assert all(each.encode() for each in shown)


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
    with pytest.raises(ValueError, match="not part of a path"):
        JsonPath.parse("$.a b")


def test_paths_find_what_is_within_what_they_find() -> None:
    data = {"a": {"a": {"b": "secret"}}}
    assert JsonPath.parse("$..a.b").find(data) == ["secret"]
    assert JsonPath.parse("$..a.b").replace(data, lambda _: "-") == {"a": {"a": {"b": "-"}}}
    assert JsonPath.parse("$..a").replace({"a": {"a": 1}}, lambda _: "-") == {"a": "-"}
    assert JsonPath.parse("$").replace(data, lambda _: "-") == "-"


def test_paths_take_time_that_grows_with_the_data_only() -> None:
    data = json.loads('{"a":' * 400 + "1" + "}" * 400)
    assert JsonPath.parse("$..a..a..a..a..a..a").find(data).count(1) == 1  # 5e12 ways lead there
    assert made(data, b"k", "orders:$..a..a..a..a").value.data["a"]["a"]["a"]["a"] == "••••••"


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
    assert "4111" not in made('{"card": "4111"}', b"k", "orders:$.card").value.text, "JSON within a text"
    for wrong in ("orders", "orders:", ":key", "orders:card"):
        with pytest.raises(ValueError):
            Mask.parse(wrong)


@pytest.mark.parametrize(
    ("path", "text"),
    [("$.a", "x"), ("$.b", "[1, 2]"), ("$.b[*]", "1, 2"), ("$.none", ""), ("$..c", "?"), ("$.d", "••••••")],
)
def test_columns_show_what_is_not_masked(path: str, text: str) -> None:
    message = made({"a": "x", "b": [1, 2], "c": "\ud800", "d": "secret"}, b"k", "orders:$.d")
    assert message.preview_of(JsonPath.parse(path)) == text
    assert made(b"no JSON").preview_of(JsonPath.parse("$")) == ""
    assert len(made({"a": "x" * 9_999}).preview_of(JsonPath.parse("$.a"))) < 300


def test_dead_letters_are_masked_as_in_the_topic_that_they_come_from() -> None:
    headers = ((SOURCE_TOPIC, b"payments"), ("token", b"t-1"))
    letter = made({"card": "4111", "id": 1}, b"k", headers=headers)
    assert "4111" in letter.value.text
    masks = tuple(map(Mask.parse, ("pay*:$.card", "payments:header.token", "others:key")))
    masked = Message(letter.record, Reading(TOPIC, masks=masks))
    assert masked.masking
    assert (masked.value.data, masked.key.text) == ({"card": "••••••", "id": 1}, "k")
    assert masked.header("token") == "••••••"
    assert not Message(made({"card": "4111"}).record, Reading(TOPIC, masks=masks)).masking


def test_a_list_shows_binary_values_without_the_offsets_of_a_dump() -> None:
    assert hex_row(hex_dump(bytes(range(18)))) == bytes(range(18)).hex(" ")


def test_a_problem_of_a_masked_value_does_not_quote_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Decoded("json", "", 20, {"card": "4111"}, "it does not fit its schema: '4111' is no number")
    monkeypatch.setattr(MessageDecoder, "decode", lambda *_, **__: found)
    reading = Reading(TOPIC, masking=Masking((Mask.parse(f"{TOPIC}:$.card"),)))
    value = Message(made(b"{}").record, reading).as_json()["value"]
    assert "4111" not in str(value)
    assert value["problem"] == "it does not fit its schema"
