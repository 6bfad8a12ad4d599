"""The sink for OpenSearch on OpenSearch itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.interop.search_server import search_server

from ottla.connect.connectors.search_sink import SearchSink
from ottla.connect.data import schema as s
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema
from ottla.connect.testing import check_config, write_sink

ROW = s.struct({"name": Schema(s.STRING, optional=True), "price": s.decimal(2, optional=True)})


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with search_server(tmp_path_factory.mktemp("search")) as running:
        yield running


def _record(topic: str, offset: int, key: Any, value: Any, schema: Schema | None = None) -> Record:
    return Record(topic, value, schema, key, None, 0, 0, [], offset, topic)


def _documents(url: str, index: str) -> dict[str, Any]:
    httpx.post(f"{url}/{index}/_refresh").raise_for_status()
    hits = httpx.get(f"{url}/{index}/_search?size=10000&version=true").json()["hits"]["hits"]
    return {each["_id"]: (each["_version"], each["_source"]) for each in hits}


def test_batches_that_come_again_change_nothing(url: str) -> None:
    config = {"connection.url": url}
    assert check_config(SearchSink, {**config, "topics": "Goods"}).error_count == 0
    first = [_record("Goods", n, f"k{n}", {"name": f"n{n}", "price": None}, ROW) for n in range(3000)]
    changes = [
        _record("Goods", 3000, "k1", {"name": "changed"}),
        _record("Goods", 3001, "k0", None),
        _record("Goods", 3002, "never there", None),
    ]
    for batches in ((first, changes), (changes,), (first, changes)):
        for number, records in enumerate(batches):
            assert write_sink(SearchSink, config, records, number=number) == []
    found = _documents(url, "goods")  # an index has small letters
    assert set(found) == {f"k{n}" for n in range(1, 3000)}
    assert found["k1"] == (3000, {"name": "changed"})
    assert found["k7"] == (7, {"name": "n7", "price": None})


def test_what_the_index_refuses_is_named_and_the_others_are_indexed(url: str) -> None:
    config = {"connection.url": url, "key.ignore": "true", "index.format": "typed-${topic}"}
    records = [
        _record("t", 0, None, {"count": 1}),
        _record("t", 1, None, {"count": "not a number"}),
        _record("t", 2, None, {"count": 3}),
    ]
    for _ in range(2):
        (refused,) = write_sink(SearchSink, config, records)
        assert refused.record.offset == 1
        assert "failed to parse field [count]" in refused.reason
    assert set(_documents(url, "typed-t")) == {"t+0+0", "t+0+2"}
