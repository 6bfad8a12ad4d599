"""Keys and kinds: parsing, checking, writing, refusing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.config.declaration import Config, ConfigError, Key
from ottla.common.config.types import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    NOT_ZERO,
    PASSWORD,
    SHORT,
    STRING,
    Check,
    at_least,
    between,
    list_of,
    one_of,
)
from ottla.common.units import MAX_INT, MAX_LONG, MAX_SHORT


class Oven(Config):
    LEVEL = "oven"
    UNIMPLEMENTED = frozenset({"grill.degrees"})
    UNIMPLEMENTED_PREFIXES = ("steam.",)

    heat_degrees = Key("heat.degrees", INT, 180, "How hot.", check=between(50, 300))
    door_code = Key("door.code", PASSWORD, "", "Opens the door.", check=one_of("1234", "4321"))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (BOOLEAN, "true", True),
        (BOOLEAN, "FALSE", False),
        (STRING, "any thing", "any thing"),
        (SHORT, str(MAX_SHORT), MAX_SHORT),
        (INT, str(-MAX_INT - 1), -MAX_INT - 1),
        (LONG, str(MAX_LONG), MAX_LONG),
        (LONG, "+5", 5),
        (DOUBLE, "0.25", 0.25),
        (DOUBLE, "1e3", 1000.0),
        (LIST, "", ()),
        (LIST, "a , b", ("a", "b")),
    ],
)
def test_a_kind_reads_what_kafka_reads(kind, text, value) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (BOOLEAN, "yes"),
        (BOOLEAN, "1"),
        (SHORT, str(MAX_SHORT + 1)),
        (INT, str(MAX_INT + 1)),
        (INT, "1_000"),
        (INT, "1.0"),
        (INT, ""),
        (INT, "٣"),
        (LONG, str(MAX_LONG + 1)),
        (LONG, "9" * 10_000),
        (DOUBLE, "nan"),
        (DOUBLE, "inf"),
        (DOUBLE, "1e999"),
        (DOUBLE, "half"),
    ],
)
def test_a_kind_refuses_what_kafka_refuses(kind, text) -> None:
    with pytest.raises(ValueError, match="must be"):
        kind.parse(text)


def test_values_are_written_as_java_writes_them() -> None:
    assert BOOLEAN.write(True) == "true"
    assert DOUBLE.write(0.5) == "0.5"
    assert DOUBLE.write(1.7976931348623157e308) == "1.7976931348623157E308"
    assert LIST.write(("compact", "delete")) == "compact,delete"


@given(st.integers(-MAX_LONG - 1, MAX_LONG))
def test_a_long_reads_back_as_it_was_written(value: int) -> None:
    assert LONG.parse(LONG.write(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back_as_it_was_written(value: float) -> None:
    assert DOUBLE.parse(DOUBLE.write(value)) == value


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (at_least(1), 1, 0),
        (between(0, 1), 0.5, 1.5),
        (one_of("a", "b"), "a", "A"),
        (list_of("a", "b"), ("b", "a"), ("a", "c")),
        (NOT_ZERO, -1, 0),
    ],
)
def test_a_check_tells_good_from_bad(check: Check, good: object, bad: object) -> None:
    assert check.accepts(good)
    assert not check.accepts(bad)


def test_a_key_reads_text_with_blanks_around_it() -> None:
    assert Oven.heat_degrees.parse(" 200 ") == 200


def test_a_refusal_names_the_key_the_rule_and_the_value() -> None:
    with pytest.raises(ConfigError) as refused:
        Oven.heat_degrees.parse("301")
    assert str(refused.value) == "heat.degrees: must be between 50 and 300, not '301'"
    assert refused.value.key == "heat.degrees"


def test_a_secret_is_neither_shown_nor_quoted_in_a_refusal() -> None:
    assert Oven.door_code.write("1234") is None
    assert Oven.door_code.shown("1234") is None
    with pytest.raises(ConfigError) as refused:
        Oven.door_code.parse("0000")
    assert "0000" not in str(refused.value)


def test_an_unknown_key_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"heat\.degree: unknown oven key; did you mean heat\.degrees\?"):
        Oven.parse({"heat.degree": "100"})


def test_a_key_unlike_any_other_is_refused_without_a_guess() -> None:
    with pytest.raises(ConfigError, match=r"unknown oven key$"):
        Oven.key("zzz")


@pytest.mark.parametrize("name", ["grill.degrees", "steam.pressure"])
def test_a_key_that_is_known_but_not_implemented_is_refused_with_that_reason(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Oven.key(name)
    assert refused.value.reason == "Kafka key not implemented by Ottla yet"


def test_a_key_must_be_declared_under_its_own_name() -> None:
    with pytest.raises((TypeError, RuntimeError)) as refused:

        class Wrong(Config):
            heat = Key("heat.degrees", INT, 180, "How hot.")

    text = f"{refused.value} {refused.value.__cause__}"
    assert "heat_degrees" in text
