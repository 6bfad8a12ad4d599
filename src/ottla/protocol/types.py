"""kio's number and name types, as handlers write them: `i32(5)`, `TopicName("orders")`.

kio checks every call at run time, which costs a microsecond each; our encoder checks ranges when it
writes. So for the type checker these are kio's types, and at run time plain `int` and `str`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from kio.schema.types import BrokerId, GroupId, ProducerId, TopicName, TransactionalId
    from kio.static.primitive import f64, i8, i16, i32, i32Timedelta, i64, i64Timedelta
else:
    BrokerId = ProducerId = i8 = i16 = i32 = i64 = int
    f64 = float
    GroupId = TopicName = TransactionalId = str
    i32Timedelta = i64Timedelta = lambda value: value  # noqa: N816


NO_THROTTLE = cast("i32Timedelta", timedelta(0))

__all__ = [
    "NO_THROTTLE",
    "BrokerId",
    "GroupId",
    "ProducerId",
    "TopicName",
    "TransactionalId",
    "f64",
    "i8",
    "i16",
    "i32",
    "i32Timedelta",
    "i64",
    "i64Timedelta",
]
