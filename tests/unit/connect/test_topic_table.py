from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.connect.herder.topic_table import TopicTable


def test_a_record_that_is_not_understood_does_not_end_the_reading() -> None:
    taken: list[str] = []

    def take(key: str, value: Any, _: int) -> None:
        taken.append(key + value["properties"])

    table = object.__new__(TopicTable)
    table.topic, table._take = "connect-configs", take
    for offset, value in enumerate((b"[]", b'{"other":1}', b"no JSON", b'{"properties":"x"}')):
        record = SimpleNamespace(key=b"connector-a-", value=value, offset=offset)
        table._accept(record)
    assert taken == ["connector-a-x"]
