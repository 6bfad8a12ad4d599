r"""Java's `.properties` format."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.config.declaration import ConfigError
from ottla.common.config.properties import as_properties, parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        ("# note\n! note\n\n   # note", {}),
        ("a=1", {"a": "1"}),
        ("a = 1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t=\t1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==1", {"a": "=1"}),
        ("a=1=2:3", {"a": "1=2:3"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1 # part of the value", {"a": "1 # part of the value"}),
        ("a=1\\\n   2\\\n\t3", {"a": "123"}),
        ("a=1\\\n# no note", {"a": "1# no note"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        (r"a=\t\n\u00e9\q", {"a": "\t\néq"}),
        (r"a\=b\ c=1", {"a=b c": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=über", {"a": "über"}),
    ],
)
def test_a_text_reads_as_in_java(text: str, settings: dict[str, str]) -> None:
    assert parse_properties(text) == settings


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


words = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))


@given(st.dictionaries(words.filter(bool), words))
def test_everything_escaped_reads_back(settings: dict[str, str]) -> None:
    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in settings.items())
    assert parse_properties(text) == settings


@given(st.text())
def test_any_text_parses_or_is_refused_with_its_line(text: str) -> None:
    try:
        settings, refused_at = parse_properties(text), None
    except ConfigError as refused:
        settings, refused_at = {}, refused.key
    assert "" not in settings
    assert refused_at is None or refused_at.startswith("properties, line ")


def test_a_line_without_a_key_is_refused_with_its_number() -> None:
    with pytest.raises(ConfigError, match=r"server\.properties, line 2: '=1' has no key"):
        parse_properties("a=1\n=1", "server.properties")


def test_a_broken_escape_is_refused() -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties(r"a=\u12")


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\n")
    assert read_properties(file) == {"num.partitions": "3"}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.properties: cannot be read: No such file"):
        read_properties(tmp_path / "missing.properties")


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "binary.properties"
    file.write_bytes(b"a=\xff")
    with pytest.raises(ConfigError, match=r"binary\.properties: is not UTF-8: byte 2 is 0xff"):
        read_properties(file)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_reads_the_same(settings: dict[str, str]) -> None:
    assert parse_properties(as_properties(settings)) == settings
