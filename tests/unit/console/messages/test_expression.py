from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.console.messages.making import made

from ottla.console.messages.expression import BadExpression, like, parse, quoted

ORDER = {
    "id": "o-1",
    "total": 120.5,
    "n": "17",
    "test": False,
    "items": [{"sku": "a"}, {"sku": "b"}],
    "x": None,
}
MESSAGE = made(ORDER, b"order-1", partition=3, headers=(("trace", b"t-1"), ("x-y", None)))


@pytest.mark.parametrize(
    "text",
    [
        "$.total > 100",
        "$.total >= 120.5 AND $.total <= 120.5",
        "$.total BETWEEN 100 AND 200",
        "$.n = 17",
        "$.n > 9",
        "$.items[0].sku = 'a' and $.items[*].sku = 'b'",
        "$.items[-1].sku == 'b'",
        "$..sku IN ('z', 'b')",
        "value.id = 'o-1'",
        "value CONTAINS '\"total\": 120.5'",
        "key LIKE 'order-%' AND key NOT LIKE '%x%'",
        "key ILIKE 'ORDER%'",
        "key MATCHES '^order-[0-9]+$'",
        "key = 'order-1' OR $.total = 1",
        "header.trace = 't-1'",
        "header['x-y'] IS NULL",
        "header.absent IS NULL AND header.trace IS NOT NULL",
        "NOT $.test",
        "not ($.total < 100)",
        "$.x IS NULL",
        "$.absent IS NULL",
        "partition = 3 AND offset = 7",
        "timestamp >= '2023-11-14' AND timestamp < '2023-11-15T00:00:00Z'",
        "size > 20",
        "$.id <> 'o-2'",
        "$['id'] = 'o-1'",
        "'o-1' = $.id",
    ],
)
def test_what_holds(text: str) -> None:
    assert parse(text).test(MESSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "$.total > 121",
        "$.total > 'a'",
        "$.absent = 1",
        "$.items[9].sku = 'a'",
        "$.test",
        "$.x = 0",
        "key LIKE 'order'",
        "key MATCHES '^[0-9]+$'",
        "header.trace = 't-2'",
        "$.total NOT BETWEEN 100 AND 200",
        "$.id NOT IN ('o-1')",
        "$.id = 'o-1' AND $.total < 0",
    ],
)
def test_what_does_not_hold(text: str) -> None:
    assert not parse(text).test(MESSAGE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it ends"),
        ("$.a >", "it ends"),
        ("$.a = ", "it ends"),
        ("foo = 1", "'foo'"),
        ("$.a = 'b", "quotes"),
        ("(a = 1", "'a'"),
        ("($.a = 1", "')'"),
        ("$.a = 1 $.b", "AND, OR"),
        ("'x'", "comparison"),
        ("key MATCHES '('", "regular expression"),
        ("header = 1", "name a header"),
        ("timestamp > 'noon'", "not a time"),
        ("$.a NOT 1", "IN, LIKE"),
        ("(" * 60 + "$.a" + ")" * 60, "deeply"),
        ("$.a = 1 " + "OR $.a = 1 " * 1000, "characters"),
    ],
)
def test_what_cannot_be_read(text: str, says: str) -> None:
    with pytest.raises(BadExpression, match=says.replace("(", r"\(").replace(")", r"\)")):
        parse(text)


@pytest.mark.parametrize(
    ("text", "needles"),
    [
        ("key = 'order-1'", [b"order-1"]),
        ("value CONTAINS 'timeout' AND $.a > 1", [b"timeout"]),
        ("key LIKE 'order-%-x'", [b"order-"]),
        ("key = 'order-1' OR $.a = 1", []),
        ("NOT key = 'order-1'", []),
        ("key != 'order-1'", []),
        ("$.n = '17'", []),
        ("$.name = 'Tromsø'", []),
        ("$.path = 'a/b'", []),
        ("key ILIKE 'abc%'", []),
        ("key = 'ab'", []),
    ],
)
def test_needles_are_only_what_must_be_there(text: str, needles: list[bytes]) -> None:
    assert list(parse(text).needles) == needles


@given(st.text(), st.text(alphabet="ab%_", max_size=8))
def test_like_is_what_sql_says(text: str, pattern: str) -> None:
    assert like(pattern)(text) == _slow_like(pattern, text)


def _slow_like(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_slow_like(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and (pattern[0] == "_" or pattern[0] == text[0]) and _slow_like(pattern[1:], text[1:])


@given(st.text(max_size=40))
@example("null")
def test_a_quoted_text_means_itself(text: str) -> None:
    message = made(None, text.encode(errors="surrogatepass") if _is_plain(text) else b"k")
    expected: Any = message.key.text
    is_null = message.key.kind == "null" or (message.key.is_structured and message.key.data is None)
    assert parse(f"key CONTAINS {quoted(expected)}").test(message) == (not is_null)


def _is_plain(text: str) -> bool:
    return text.isprintable() and not text.isspace() and not text.strip()[:1].isdigit()


@given(st.text(alphabet="$.key value'()<>=ANDORNOT0189[]*\"", max_size=60))
def test_nothing_but_bad_expression_is_raised(text: str) -> None:
    try:
        parse(text).test(MESSAGE)
    except BadExpression:
        pass
