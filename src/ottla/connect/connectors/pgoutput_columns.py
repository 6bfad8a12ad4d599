"""Take the rows of many pgoutput messages apart at once: a column of texts for each column of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.connect.connectors.pgoutput import NULL, SAME

INSERT, UPDATE, TEXT = ord("I"), ord("U"), ord("t")
_NEW = ord("N")
_ROW_AT = 8
"""Kind, relation, N, number of columns."""
_LENGTH = 5
"""Kind and length of a text."""


def is_new_row(data: bytes) -> bool:
    """Return whether a message has the new row of an insert or update, and nothing of the old one."""
    return data[0] in (INSERT, UPDATE) and data[5] == _NEW


class Texts(NamedTuple):
    """The values of a column."""

    column: Any
    """Null also where an update has not changed a large value."""
    is_same: Any
    """Which are those; None if there are none."""


def texts_of(messages: Sequence[bytes], columns: int) -> list[Texts] | None:
    """Return the texts of each column; None if a row has other columns."""
    import numpy as np
    import pyarrow as pa

    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(sizes)
    data = b"".join((*messages, bytes(_LENGTH)))
    if len(data) > 2**31 - 1:
        return None
    octets = np.frombuffer(data, np.uint8)
    position = ends - sizes + _ROW_AT
    if ((octets[position - 2].astype(np.int64) << 8 | octets[position - 1]) != columns).any():
        return None
    found = []
    evens = np.arange(0, 2 * len(messages) - 1, 2)
    for _ in range(columns):
        kinds = octets[position]
        is_null, is_same = kinds == NULL, kinds == SAME
        if not (is_null | is_same | (kinds == TEXT)).all():
            return None
        is_null |= is_same
        lengths = np.zeros(len(messages), np.int64)
        for each in range(1, _LENGTH):
            lengths = lengths << 8 | octets[position + each]
        begin = np.where(is_null, position + 1, position + _LENGTH)
        position = np.where(is_null, begin, begin + lengths)
        edges = np.stack((begin, position), axis=1).ravel().astype(np.int32)
        pieces = pa.Array.from_buffers(
            pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
        )
        texts = pieces.take(pa.array(evens, mask=is_null)).cast(pa.string())
        found.append(Texts(texts, pa.array(is_same) if is_same.any() else None))
    return found if (position == ends).all() else None
