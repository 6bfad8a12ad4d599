"""Connect's transforms and predicates, on records with and without a schema."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.connect.converters import header_values
from ottla.connect.data import schema as s
from ottla.connect.data.json_codec import Constant
from ottla.connect.data.record import Header, Record
from ottla.connect.data.schema import Schema, check_value
from ottla.connect.engine.pipeline import BadRecord
from ottla.connect.errors import WrongConfig
from ottla.connect.testing import pipeline_of, transformed
from ottla.connect.transforms.base import Transform
from ottla.connect.transforms.chain import TRANSFORMS, Step, chain_of
from ottla.connect.transforms.java_dates import JavaDateFormat

ORDER = {"id": 7, "who": {"name": "Ana", "age": 30}, "price": 2.5, "note": None}
SCHEMA = s.struct(
    {
        "id": Schema(s.INT32),
        "who": s.struct({"name": Schema(s.STRING), "age": Schema(s.INT32)}, optional=True),
        "price": Schema(s.FLOAT64),
        "note": Schema(s.STRING, optional=True),
    },
    "Order",
)


def apply(kind: str, value: Any = ORDER, schema: Schema | None = SCHEMA, **config: str) -> Record:
    record = Record("t", copy.deepcopy(value), schema, partition=3, timestamp_ms=0, offset=11)
    found = transformed(
        {
            "transforms": "x",
            "transforms.x.type": kind,
            **{f"transforms.x.{key.replace('_', '.')}": each for key, each in config.items()},
        },
        record,
    )
    assert found is not None
    if found.value_schema is not None:
        check_value(found.value_schema, found.value)
    return found


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_transforms_of_fields(schema: Schema | None) -> None:
    def value(kind: str, **config: str) -> Any:
        return apply(kind, ORDER, schema, **config).value

    assert value("ExtractField$Value", field="price") == 2.5
    assert value("ExtractField$Value", field="who.name", field_syntax_version="V2") == "Ana"
    assert value("HoistField$Value", field="all") == {"all": ORDER}
    assert value("ReplaceField$Value", exclude="who,note", renames="id:order_id") == {
        "order_id": 7,
        "price": 2.5,
    }
    assert value("ReplaceField$Value", include="id") == {"id": 7}
    assert value("Flatten$Value", delimiter="_") == {
        "id": 7,
        "who_name": "Ana",
        "who_age": 30,
        "price": 2.5,
        "note": None,
    }
    assert value("MaskField$Value", fields="id,note") == {**ORDER, "id": 0}
    assert value("MaskField$Value", fields="id", replacement="9") == {**ORDER, "id": 9}
    assert value("Cast$Value", spec="id:string,price:int32") == {**ORDER, "id": "7", "price": 2}
    inserted = value(
        "InsertField$Value",
        topic_field="topic!",
        partition_field="p",
        offset_field="o",
        static_field="s?",
        static_value="v",
        timestamp_field="ts",
    )
    assert inserted == {
        **ORDER,
        "topic": "t",
        "p": 3,
        "o": 11,
        "s": "v",
        "ts": datetime(1970, 1, 1, tzinfo=UTC),
    }
    assert value("HeaderFrom$Value", fields="id", headers="h", operation="move") == {
        key: each for key, each in ORDER.items() if key != "id"
    }


def test_keys_headers_and_topics() -> None:
    record = apply("ValueToKey", fields="id,price")
    assert (record.key, record.key_schema) == (
        {"id": 7, "price": 2.5},
        s.struct({"id": Schema(s.INT32), "price": Schema(s.FLOAT64)}),
    )
    record = apply("HeaderFrom$Value", fields="id", headers="h", operation="copy")
    assert record.headers == [Header("h", Schema(s.INT32), 7)]
    assert apply("InsertHeader", header="n", value_literal="5").headers == [Header("n", Schema(s.INT8), 5)]
    assert apply("RegexRouter", regex="(t)", replacement="to-$1-${1}").topic == "to-t-t"
    assert apply(
        "TimestampRouter", topic_format="${topic}/${timestamp}", timestamp_format="yyyy.MM"
    ).topic == ("t/1970.01")
    named = apply("SetSchemaMetadata$Value", schema_name="New", schema_version="4").value_schema
    assert named is not None
    assert (named.name, named.version) == ("New", 4)


@pytest.mark.parametrize(
    ("given", "config", "expected"),
    [
        ("2020-02-03 04:05:06", {"target_type": "unix", "format": "yyyy-MM-dd HH:mm:ss"}, 1580702706000),
        (
            1580702706,
            {"target_type": "string", "format": "dd.MM.yy HH:mm", "unix_precision": "seconds"},
            "03.02.20 04:05",
        ),
        (1580702706000, {"target_type": "Date"}, date(2020, 2, 3)),
        (date(2020, 2, 3), {"target_type": "Timestamp"}, datetime(2020, 2, 3, tzinfo=UTC)),
        (
            datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            {"target_type": "unix", "unix_precision": "nanoseconds"},
            10**9,
        ),
        (
            "2020-02-03T04:05:06+0200",
            {"target_type": "unix", "format": "yyyy-MM-dd'T'HH:mm:ssZ"},
            1580695506000,
        ),
    ],
)
def test_times(given: Any, config: dict[str, str], expected: Any) -> None:
    assert apply("TimestampConverter$Value", given, None, **config).value == expected
    field = apply("TimestampConverter$Value", {"at": given, "x": 1}, None, field="at", **config)
    assert field.value == {"at": expected, "x": 1}


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (300, "int8", 44),
        (2**31, "int32", -(2**31)),
        (1e12, "int32", 2**31 - 1),
        ("5", "int16", 5),
        (0, "boolean", False),
        ("TRUE", "boolean", True),
        (True, "string", "true"),
        (1.5, "string", "1.5"),
        ("1e3", "float64", 1000.0),
    ],
)
def test_casts_are_those_of_java(value: Any, kind: str, expected: Any) -> None:
    assert apply("Cast$Value", value, None, spec=kind).value == expected


def test_a_value_that_a_transform_cannot_take_is_a_bad_record() -> None:
    for kind, value, config in (
        ("Cast$Value", {"a": "x"}, {"spec": "a:int32"}),
        ("Cast$Value", "99999999999", {"spec": "int32"}),
        ("ExtractField$Value", [1], {"field": "a"}),
        ("TimestampConverter$Value", "no", {"target_type": "unix", "format": "yyyy"}),
        ("MaskField$Value", "text", {"fields": "a"}),
    ):
        with pytest.raises(BadRecord):
            apply(kind, value, None, **config)


def test_predicates_choose_the_records() -> None:
    config = {
        "transforms": "drop",
        "transforms.drop.type": "Filter",
        "transforms.drop.predicate": "p",
        "predicates": "p",
        "predicates.p.type": "TopicNameMatches",
        "predicates.p.pattern": "a.*",
    }
    assert transformed(config, Record("abc", 1)) is None
    assert transformed(config, Record("xabc", 1)) is not None
    negated = {**config, "transforms.drop.negate": "true"}
    assert transformed(negated, Record("abc", 1)) is not None
    assert transformed(negated, Record("xabc", 1)) is None
    tombstones = {**config, "predicates.p.type": "RecordIsTombstone"}
    assert transformed(tombstones, Record("t", None)) is None
    header = {**config, "predicates.p.type": "HasHeaderKey", "predicates.p.name": "h"}
    assert transformed(header, Record("t", 1, headers=[Header("h", None, 1)])) is None
    assert transformed(header, Record("t", 1)) is not None


@pytest.mark.parametrize(
    "config",
    [
        {"type": "Cast$Value", "spec": "a:bytes"},
        {"type": "Cast$Value", "spec": "int8,a:int8"},
        {"type": "InsertField$Value"},
        {"type": "TimestampConverter$Value", "target.type": "string"},
        {"type": "ReplaceField$Value", "renames": "a"},
        {"type": "HeaderFrom$Value", "fields": "a,b", "headers": "x", "operation": "move"},
        {"type": "Nothing"},
        {"type": "Filter", "predicate": "missing"},
    ],
)
def test_a_wrong_config_is_refused_before_the_first_record(config: dict[str, str]) -> None:
    with pytest.raises(WrongConfig):
        chain_of({"transforms": "x", **{f"transforms.x.{key}": each for key, each in config.items()}})


def test_all_of_connects_transforms_are_there() -> None:
    ours = {name for name in TRANSFORMS if name.startswith("ottla.")}
    assert ours == {"ottla.transforms.Sql"}
    names = {name.rpartition(".")[2].partition("$")[0] for name in TRANSFORMS if name not in ours}
    assert names == {
        "Cast",
        "DropHeaders",
        "ExtractField",
        "Filter",
        "Flatten",
        "HeaderFrom",
        "HoistField",
        "InsertField",
        "InsertHeader",
        "MaskField",
        "RegexRouter",
        "ReplaceField",
        "SetSchemaMetadata",
        "TimestampConverter",
        "TimestampRouter",
        "ValueToKey",
    }


TREES = st.recursive(
    st.integers() | st.text(),
    lambda inner: st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1), TREES, max_size=4))
def test_flatten_keeps_every_leaf(tree: dict[str, Any]) -> None:
    def leaves(value: Any) -> list[Any]:
        return (
            [leaf for each in value.values() for leaf in leaves(each)] if isinstance(value, dict) else [value]
        )

    flat = apply("Flatten$Value", tree, None, delimiter="/").value
    assert not any(isinstance(each, dict) for each in flat.values())
    assert list(flat.values()) == leaves(tree)


@settings(deadline=None)
@given(st.dictionaries(st.text("abcd", min_size=1, max_size=2), st.integers()))
def test_excluding_and_including_are_complements(fields: dict[str, int]) -> None:
    kept = apply("ReplaceField$Value", fields, None, include="a,b").value
    left = apply("ReplaceField$Value", fields, None, exclude="a,b").value
    assert kept | left == fields
    assert not kept.keys() & left.keys()


@settings(deadline=None)
@given(st.datetimes(datetime(1971, 1, 1), datetime(2068, 1, 1)))
def test_a_time_in_javas_format_is_read_back(moment: datetime) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
    for pattern in (
        "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        "EEE dd MMM yyyy hh:mm:ss.SSS a",
        "yyyyMMddHHmmssSSS",
        "yy/M/d H:m:s.SSS",
    ):
        form = JavaDateFormat("format", pattern)
        assert form.parse(form.text(moment)) == moment, pattern


SQL = "ottla.transforms.Sql"


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_a_query_makes_the_value(schema: Schema | None) -> None:
    query = (
        "SELECT id, who, price * 2 AS doubled, upper(json_extract(who, '$.name')) AS name, "
        "coalesce(note, 'none') AS note, _topic || '-' || _partition AS place, _offset AS at FROM record"
    )
    found = apply(SQL, ORDER, schema, query=query)
    assert found.value == {
        "id": 7,
        "who": ORDER["who"],
        "doubled": 5.0,
        "name": "ANA",
        "note": "none",
        "place": "t-3",
        "at": 11,
    }
    if schema is not None:
        assert found.value_schema is not None
        fields = found.value_schema.field_map()
        assert fields["id"] == Schema(s.INT32)
        assert fields["who"] == SCHEMA.field_map()["who"]
        assert fields["doubled"] == Schema(s.FLOAT64, optional=True)
        assert found.value_schema.name == "Order"
    nulled = apply(SQL, ORDER, schema, query="SELECT nullif(id, 7) AS id FROM record;")
    assert nulled.value == {"id": None}


def test_what_sqlite_has_no_type_for_stays_what_it_is() -> None:
    when = datetime(2020, 1, 2, tzinfo=UTC)
    value = {"yes": True, "at": when, "price": Decimal("1.20"), "tags": ["a"], "data": b"x"}
    found = apply("Sql", value, None, query="SELECT * FROM record")
    meta = {"_topic": "t", "_partition": 3, "_timestamp": 0, "_offset": 11, "_key": None}
    assert found.value == value | meta
    assert found.value["yes"] is True
    text = apply(SQL, value, None, query="SELECT substr(at, 1, 10) AS day, price + 1 AS more FROM record")
    assert text.value == {"day": "2020-01-02", "more": 2.2}


def test_a_record_without_a_row_is_dropped() -> None:
    config = {"transforms": "x", "transforms.x.type": SQL, "transforms.x.query": "SELECT id FROM record"}
    assert transformed(config, Record("t", {"id": 1})) is not None
    only = {**config, "transforms.x.query": "SELECT id FROM record WHERE id > 5"}
    assert transformed(only, Record("t", {"id": 1})) is None
    tombstone = transformed(only, Record("t", None, key="k"))
    assert tombstone is not None
    assert tombstone.value is None


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM record",
        "SELECT",
        "SELECT 1 FROM record; SELECT 2",
        "SELECT * FROM other",
        "ATTACH 'x' AS y",
        "SELECT no_such_function(1) FROM record",
    ],
)
def test_a_wrong_query_is_a_wrong_config(query: str) -> None:
    with pytest.raises(WrongConfig):
        chain_of({"transforms": "x", "transforms.x.type": SQL, "transforms.x.query": query})


@pytest.mark.parametrize(
    ("value", "query"),
    [
        ({"id": 1}, "SELECT missing FROM record"),
        ("text", "SELECT id FROM record"),
        ({"id": 1 << 70}, "SELECT id FROM record"),
        (
            {"id": 1},
            "SELECT n FROM (WITH RECURSIVE c(n) AS (SELECT id FROM record UNION ALL SELECT n + 1 FROM c) "
            "SELECT max(n) AS n FROM c)",
        ),
    ],
)
def test_a_record_that_a_query_cannot_take_is_a_bad_record(value: Any, query: str) -> None:
    with pytest.raises(BadRecord):
        apply(SQL, value, None, query=query)


class Renaming(Transform):
    """A transform of a plug-in, which changes a nested struct in place."""

    def apply(self, record: Record) -> Record:
        record.value["source"]["name"] += "!"
        return record


def test_a_transform_may_change_what_change_data_capture_shares_among_records() -> None:
    source = Constant(name="shop", db="d")
    pipeline = pipeline_of({"connector.class": "FileSource"})
    pipeline.steps.append(Step("rename", Renaming({})))
    records = [Record("t", {"after": number, "source": source}) for number in range(2)]
    found = [pipeline.transform(each) for each in records]
    assert [each.value["source"]["name"] for each in found if each is not None] == ["shop!", "shop!"]
    assert source == {"name": "shop", "db": "d"}
    for copied in (copy.copy(source), copy.deepcopy(source), pickle.loads(pickle.dumps(source))):  # noqa: S301
        copied["name"] = "other"
    for change in (lambda: source.update(name="x"), lambda: source.pop("db"), source.clear):
        with pytest.raises(TypeError, match="shared by records"):
            change()


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("300", Schema(s.INT16), 300),
        ("1e3", Schema(s.INT16), 1000),
        ("1.5", Schema(s.FLOAT32), 1.5),
        ("99999999999999999999", s.decimal(0), Decimal("99999999999999999999")),
        ("2020-01-02", s.date_schema(), date(2020, 1, 2)),
        ("2020-01-02T03:04:05.678Z", s.timestamp_schema(), datetime(2020, 1, 2, 3, 4, 5, 678000, UTC)),
        ("[1, 300]", Schema(s.ARRAY, items=Schema(s.INT16)), [1, 300]),
        ('{"a":1,"b":null}', None, {"a": 1, "b": None}),
        ('"q"', Schema(s.STRING), '"q"'),
        ("[1, 2", Schema(s.STRING), "[1, 2"),
        ("10 apples", Schema(s.STRING), "10 apples"),
        ("null", None, None),
        ("[" * 500, Schema(s.STRING), "[" * 500),
        ("{1:" * 20_000, Schema(s.STRING), "{1:" * 20_000),
        ("1e999999999", Schema(s.STRING), "1e999999999"),
    ],
)
def test_texts_of_headers_stand_for_values(text: str, schema: Schema | None, value: Any) -> None:
    found = header_values.parse(text)
    assert found[1] == value
    assert schema is None or found[0] == schema
    assert header_values.parse(header_values.text_of(found[1])) == found


def test_a_time_that_python_does_not_have_is_a_bad_record() -> None:
    with pytest.raises(BadRecord):
        apply("TimestampConverter$Value", {"at": 1 << 62}, None, field="at", target_type="Timestamp")


@pytest.mark.parametrize(
    ("regex", "replacement", "topic"),
    [
        ("(?<first>.).*", "${first}-x", "t-x"),
        ("(.*)", "$12", "t2"),
        (".*", "a\\$b", "a$b"),
        ("other", "x", "t"),
    ],
)
def test_topics_are_renamed_by_java_rules(regex: str, replacement: str, topic: str) -> None:
    assert apply("RegexRouter", regex=regex, replacement=replacement).topic == topic


@pytest.mark.parametrize("replacement", ["$1", "${a}", "x$", "x\\"])
def test_a_replacement_that_cannot_be_is_a_wrong_config(replacement: str) -> None:
    with pytest.raises(WrongConfig, match="replacement"):
        apply("RegexRouter", regex="t.*", replacement=replacement)
