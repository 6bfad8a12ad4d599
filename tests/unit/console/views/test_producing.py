"""Messages as a person types them, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.console.messages.decoding import MessageDecoder
from ottla.console.table import Form
from ottla.console.views.producing import as_line, as_typed, encoded, headers_of


@given(st.one_of(st.none(), st.binary(max_size=60), st.text(max_size=60).map(lambda each: each.encode())))
async def test_what_is_filled_in_is_what_was_there(raw: bytes | None) -> None:
    text, how = as_typed(raw, MessageDecoder().decode(raw))
    form = Form({"value": text, "value_format": how})
    assert await encoded(form, "value", "orders", [], None) == raw


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("trace", b"t-1", "trace: t-1"),
        ("trace", b"", "trace: "),
        ("a:b", b"1", None),
        ("trace", None, None),
        ("trace", b"\xff", None),
        ("trace", b"two\nlines", None),
        ("\udcff", b"1", None),
    ],
)
def test_headers_that_a_line_can_hold_are_filled_in(name: str, value: bytes | None, line: str | None) -> None:
    assert as_line(name, value) == line
    if line is not None:
        assert headers_of(Form({"headers": line})) == [(name, value)]
