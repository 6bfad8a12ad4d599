"""The ways to decode records (plain, compiled, numpy) give the same, and refuse the same bytes."""

from __future__ import annotations

import gc
import types
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consumer.fetching import record as module
from ottla.client.consumer.fetching.record import ConsumerRecord, Decoder
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import CorruptMessage, InvalidRecord
from ottla.protocol.records import compiled, record_decoder
from ottla.protocol.records.batch import HEADER_BYTES, decode_header, iter_batches
from ottla.protocol.records.record_encoder import encode_new_batch
from ottla.protocol.records.records import Record, decode_records, encode_batch

PLACE = TopicPartition("orders", 3)
TWIN = compiled.compiled_twin(record_decoder)
NO_TWIN = "the module is not compiled here; compile it with: python tools/compile_modules.py"

fields = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), fields), max_size=3).map(tuple)


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    gaps = draw(st.lists(st.integers(1, 200), min_size=1, max_size=30))
    rows, offset = [], -gaps[0]
    for gap in gaps:
        offset += gap
        rows.append(Record(offset, draw(st.integers(-1, 2**45)), draw(fields), draw(fields), draw(headers)))
    return rows


@pytest.fixture(params=["plain", "compiled", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "compiled" and TWIN is None:
        pytest.skip(NO_TWIN)
    use(monkeypatch, request.param)
    return request.param


def use(patch: pytest.MonkeyPatch, name: str) -> None:
    """Have every decoder of consumers go one way."""
    patch.setattr(module, "ROWS", TWIN if name == "compiled" else record_decoder)
    patch.setattr(module, "FEW_RECORDS", 0 if name == "numpy" else 2**62)


def decode(name: str, batch: bytes, not_before: int = 0, decoder: Decoder | None = None) -> Any:
    """Return the records, or the kind of error."""
    with pytest.MonkeyPatch.context() as patch:
        use(patch, name)
        try:
            header = decode_header(batch)
            return (decoder or Decoder()).decode(PLACE, [(header, batch)], not_before)
        except (InvalidRecord, CorruptMessage) as error:
            return type(error)


def ways() -> list[str]:
    return ["plain", "numpy"] if TWIN is None else ["plain", "numpy", "compiled"]


@settings(max_examples=150, deadline=None)
@given(records(), st.integers(0, 4), st.integers(0, 2**40), st.integers(0, 300), st.booleans())
def test_all_ways_give_the_same_records(
    rows: list[Record], codec: int, base_offset: int, skipped: int, append_time: bool
) -> None:
    rows = [row._replace(offset=row.offset + base_offset) for row in rows]
    batch = bytes(
        encode_batch(
            rows, base_offset=base_offset, codec=codec, max_timestamp=2**45, log_append_time=append_time
        )
    )
    expected = [
        ConsumerRecord(*PLACE, one.offset, one.timestamp, int(append_time), one.key, one.value, one.headers)
        for one in decode_records(batch)
        if one.offset >= base_offset + skipped
    ]
    for name in ways():
        assert decode(name, batch, base_offset + skipped) == expected, name


@settings(max_examples=300, deadline=None)
@given(records(), st.data())
def test_plain_and_compiled_agree_on_damaged_bytes(rows: list[Record], data: st.DataObject) -> None:
    if TWIN is None:
        pytest.skip(NO_TWIN)
    batch = bytearray(encode_batch(rows))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    assert decode("plain", bytes(batch)) == decode("compiled", bytes(batch))
    body, count = bytes(batch[HEADER_BYTES:]), len(rows)
    assert starts(record_decoder, body, count) == starts(TWIN, body, count)


def starts(rows: types.ModuleType, data: bytes, count: int) -> Any:
    try:
        return rows.record_starts(data, [(count, len(data))])
    except (InvalidRecord, IndexError) as error:
        return type(error)


def test_many_records_are_decoded_while_the_garbage_collector_pauses(way: str) -> None:
    rows = [Record(offset, 0, None, b"v%d" % offset) for offset in range(module.MANY_RECORDS)]
    batch = bytes(encode_batch(rows))
    before = [each["collections"] for each in gc.get_stats()]
    found = Decoder().decode(PLACE, [(decode_header(batch), batch)], 0)
    assert gc.isenabled()
    assert [each.value for each in found] == [each.value for each in rows]
    assert sum(each["collections"] for each in gc.get_stats()) - sum(before) <= 2
    gc.disable()
    try:
        Decoder().decode(PLACE, [(decode_header(batch), batch)], 0)
        assert not gc.isenabled(), "who has switched it off wants it off"
    finally:
        gc.enable()


def test_deserializers_are_called_by_every_way(way: str) -> None:
    batch = bytes(encode_batch([Record(0, 0, b"k", b"12"), Record(1, 0, None, None)]))
    decoder = Decoder(key=bytes.decode, value=int)
    found = decoder.decode(PLACE, [(decode_header(batch), batch)], 0)
    assert [(each.key, each.value) for each in found] == [("k", 12), (None, None)]


def test_a_twin_of_another_source_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fitting = types.ModuleType("twin")
    monkeypatch.setattr(compiled, "import_module", lambda name: fitting)
    source = open(record_decoder.__file__, "rb").read()  # noqa: SIM115
    fitting.SOURCE_SHA256 = compiled.sha256(source).hexdigest()  # type: ignore[attr-defined]
    assert compiled.compiled_or_source(record_decoder) is fitting
    fitting.SOURCE_SHA256 = compiled.sha256(source + b"\n").hexdigest()  # type: ignore[attr-defined]
    assert compiled.compiled_or_source(record_decoder) is record_decoder


def test_without_a_twin_the_module_itself_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        assert name == "ottla.protocol.records._record_decoder"
        raise ImportError(name)

    monkeypatch.setattr(compiled, "import_module", missing)
    assert compiled.compiled_or_source(record_decoder) is record_decoder


def many_records() -> list[Any]:
    data = encode_new_batch([(1, None, b"v", ())] * 300)
    return [*iter_batches(data)] * 4


def test_the_garbage_collector_has_seen_new_records_by_the_time_they_are_handed_out() -> None:
    if not module.ROWS.IS_COMPILED and module._columns() is not None:
        pytest.skip("numpy makes them all at once")
    assert len(Decoder().decode(PLACE, many_records(), 0)) == 1200
    assert gc.isenabled()
    assert gc.get_count()[0] < gc.get_threshold()[0]


def test_a_garbage_collector_that_the_user_has_switched_off_stays_so() -> None:
    gc.disable()
    try:
        before = gc.get_stats()[0]["collections"]
        Decoder().decode(PLACE, many_records(), 0)
        assert not gc.isenabled()
        assert gc.get_stats()[0]["collections"] == before
    finally:
        gc.enable()


def test_a_deserializer_may_see_the_topic_and_the_headers(way: str) -> None:
    class WithHeaders:
        def __call__(self, data: bytes) -> Any:
            raise AssertionError("it wants to see the record")

        def deserialize_record(self, topic: str, field: str, data: bytes, headers: Any) -> Any:
            return topic, field, data, dict(headers)

    rows = [(0, b"k", b"%d" % number, (("h", b"%d" % number),)) for number in range(20)]
    batch = bytes(encode_new_batch(rows))
    decoder = Decoder(value=WithHeaders())
    found = decoder.decode(PLACE, [(decode_header(batch), batch)], 0)
    assert [each.value for each in found] == [
        ("orders", "value", b"%d" % number, {"h": b"%d" % number}) for number in range(20)
    ]
    assert {each.key for each in found} == {b"k"}
