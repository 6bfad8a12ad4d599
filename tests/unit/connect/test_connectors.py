"""Connectors without Spark: files, made-up records, S3 (moto), Iceberg, Delta, HTTP and search."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.connect.config.keys import HIDDEN, any_of, parse_value
from ottla.connect.config.providers import resolve
from ottla.connect.config.secrets import masked, unmasked, without_parts
from ottla.connect.connectors import file_formats
from ottla.connect.connectors.datagen import DatagenSource
from ottla.connect.connectors.delta_sink import DeltaSink
from ottla.connect.connectors.files import FileSink, FileSource
from ottla.connect.connectors.http_sink import HttpSink
from ottla.connect.connectors.iceberg_sink import IcebergSink
from ottla.connect.connectors.iceberg_source import IcebergSource
from ottla.connect.connectors.object_source import S3Source
from ottla.connect.connectors.object_store import S3Sink
from ottla.connect.connectors.search_sink import SearchSink
from ottla.connect.data import schema as s
from ottla.connect.data.record import RawRecord, Record
from ottla.connect.data.schema import Schema
from ottla.connect.engine.pipeline import BadRecord, Pipeline
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.errors import ConnectError, RetriableError, WrongConfig
from ottla.connect.options import DEFAULT_CONVERTERS
from ottla.connect.plugins import Plugins
from ottla.connect.testing import check_config, converted, read_source, write_sink

ROW = s.struct({"id": Schema(s.INT32), "name": Schema(s.STRING, optional=True)})


def record(offset: int, value: Any, *, partition: int = 0, key: Any = None) -> Record:
    schema = ROW if isinstance(value, dict) and value.keys() == {"id", "name"} else None
    return Record("t", value, schema, key, None, partition, 1_600_000_000_000, [], offset, "t")


def test_datagen_makes_the_same_records_each_time() -> None:
    config = {"topic": "t", "rate": "0", "iterations": "250"}
    first, again = read_source(DatagenSource, config), read_source(DatagenSource, config)
    assert len(first) == 250
    assert [(each.key, each.value) for each in first] == [(each.key, each.value) for each in again]
    s.check_value(first[0].value_schema or ROW, first[0].value)
    rest = read_source(DatagenSource, config, offsets={'{"task":0}': {"count": 240}})
    assert [each.value["order_id"] for each in rest] == list(range(240, 250))


def test_lines_are_read_when_they_are_whole(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"one\ntwo\r\nthr")
    config = {"file": str(file), "topic": "t"}
    assert [each.value for each in read_source(FileSource, config)] == ["one", "two"]
    with file.open("ab") as more:
        more.write(b"ee\nfour\n")
    where = {f'{{"filename":"{file}"}}': {"position": 9}}
    assert [each.value for each in read_source(FileSource, config, offsets=where)] == ["three", "four"]
    long = tmp_path / "long"
    long.write_text("x" * 5000 + "\n" + "y\n" * 3000)
    lines = read_source(FileSource, {"file": str(long), "topic": "t", "batch.max.bytes": "1024"})
    assert [len(each.value) for each in lines] == [5000, *[1] * 3000]


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\xff"]), max_size=30).map(b"".join))
def test_lines_in_arrow_are_the_lines(data: bytes) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_formats, "CHUNK", 4)
        (Path(folder) / "log").write_bytes(data)
        batches = file_formats.text_batches("t", f"{folder}/log", 0, len(data))
        found = [row["value"] for batch in batches for row in batch.to_pylist()]
    lines = data.split(b"\n")
    assert found == [each.rstrip(b"\r") for each in (lines if lines[-1] else lines[:-1])]


def test_csv_json_and_parquet_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,name\n1,"x, y"\n2,\n')
    found = read_source(FileSource, {"file": str(tmp_path), "topic": "t", "format": "csv", "key.field": "id"})
    assert [(each.key, each.value) for each in found] == [
        ("1", {"id": "1", "name": "x, y"}),
        ("2", {"id": "2", "name": ""}),
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.jsonl").write_text('{"a":1}\n\n[2]\n')
    config = {"file": str(tmp_path / "in" / "*.jsonl"), "topic": "t", "format": "jsonl"}
    assert [each.value for each in read_source(FileSource, config)] == [{"a": 1}, [2]]
    out = {"path": str(tmp_path / "out"), "format": "parquet"}
    write_sink(FileSink, out, [record(0, {"id": 1, "name": None}), record(1, {"id": 2, "name": "b"})])
    back = read_source(FileSource, {"file": str(tmp_path / "out" / "t"), "topic": "t", "format": "parquet"})
    assert [each.value for each in back] == [{"id": 1, "name": None}, {"id": 2, "name": "b"}]


@pytest.mark.parametrize(
    ("kind", "content"),
    [("jsonl", '{"id":1,"name":"a"}\n{"id":2,"name":null}\n'), ("csv", "id,name\n1,a\n2,\n")],
)
def test_a_batch_that_comes_again_replaces_its_files(tmp_path: Path, kind: str, content: str) -> None:
    config = {"path": str(tmp_path), "format": kind, "flush.size": "2", "partition.by": "day"}
    rows = [
        record(5, {"id": 1, "name": "a"}),
        record(6, {"id": 2, "name": None}),
        record(7, {"id": 3, "name": "c"}),
    ]
    for _ in range(2):
        assert write_sink(FileSink, config, rows) == []
    files = sorted(each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*") if each.is_file())
    day = "t/year=2020/month=09/day=13"
    assert files == [f"{day}/t+0+0000000005.{kind}", f"{day}/t+0+0000000007.{kind}"]
    assert (tmp_path / files[0]).read_text() == content


def test_rows_that_do_not_fit_a_parquet_file_are_refused(tmp_path: Path) -> None:
    rows = [record(0, {"a": 1}), record(1, {"a": "text"}), record(2, None), record(3, {"a": 3, "b": True})]
    refused = write_sink(FileSink, {"path": str(tmp_path), "format": "parquet"}, rows)
    assert sorted(each.record.offset for each in refused) == [1, 2]
    assert "the field a is int" in next(each.reason for each in refused if each.record.offset == 1)


def test_objects_in_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    from moto import mock_aws

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    with mock_aws():
        import boto3

        client = boto3.client("s3", region_name="us-east-1")
        config = {"s3.bucket.name": "lake", "topics": "t"}
        assert "cannot be used" in check_config(S3Sink, config).results["s3.bucket.name"].errors[0]
        client.create_bucket(Bucket="lake")
        assert check_config(S3Sink, config).error_count == 0
        for _ in range(2):
            write_sink(S3Sink, config, [record(4, {"id": 1, "name": "a"})])
        (found,) = client.list_objects_v2(Bucket="lake")["Contents"]
        assert found["Key"] == "topics/t/t+0+0000000004.jsonl"
        assert client.get_object(Bucket="lake", Key=found["Key"])["Body"].read() == b'{"id":1,"name":"a"}\n'


def test_iceberg_takes_a_batch_once_and_gains_columns(tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/lake",
    }
    config = {
        "iceberg.tables": "db.${topic}",
        "iceberg.catalog": ",".join(f"{key}={value}" for key, value in properties.items()),
    }
    for _ in range(2):
        write_sink(IcebergSink, config, [record(0, {"id": 1, "name": "a"})])
    write_sink(IcebergSink, config, [record(1, {"id": 2, "name": "b", "more": 1.5})], number=1)
    rows = load_catalog("default", **properties).load_table("db.t").scan().to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "name": "a", "more": None},
        {"id": 2, "name": "b", "more": 1.5},
    ]


def test_iceberg_is_read_snapshot_by_snapshot(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/lake",
    }
    catalog = load_catalog("default", **properties)
    catalog.create_namespace("db")
    rows = [pa.table({"id": [n], "name": [f"n{n}"]}) for n in range(6)]
    table = catalog.create_table("db.orders", rows[0].schema)
    config = {
        "iceberg.table": "db.orders",
        "topic": "orders",
        "key.field": "id",
        "iceberg.catalog": ",".join(f"{key}={value}" for key, value in properties.items()),
    }
    assert read_source(IcebergSource, config) == []
    for each in rows[:3]:
        table.append(each)
    found = read_source(IcebergSource, config)
    assert sorted((each.key, each.value["name"]) for each in found) == [(0, "n0"), (1, "n1"), (2, "n2")]
    first = {'{"table":"db.orders"}': {"snapshot": table.metadata.current_snapshot_id}}
    assert read_source(IcebergSource, config, offsets=first) == []
    for each in rows[3:]:
        table.append(each)
    found = read_source(IcebergSource, config, offsets=first)
    assert sorted(each.key for each in found) == [3, 4, 5]
    table.overwrite(rows[0])
    with pytest.raises(ConnectError, match="changes rows"):
        read_source(IcebergSource, config, offsets=first)
    skipping = {**config, "iceberg.on.change": "skip"}
    # The snapshot that deletes is left out; the row that replaces the others is appended.
    assert sorted(each.key for each in read_source(IcebergSource, skipping, offsets=first)) == [0, 3, 4, 5]
    with pytest.raises(ConnectError, match="expired"):
        read_source(IcebergSource, skipping, offsets={'{"table":"db.orders"}': {"snapshot": 1}})


def test_delta_takes_a_batch_once_and_gains_columns(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    config = {"delta.table": f"{tmp_path}/${{topic}}"}
    for _ in range(2):
        write_sink(DeltaSink, config, [record(0, {"id": 1, "name": "a"})])
    write_sink(DeltaSink, config, [record(1, {"id": 2, "name": "b", "more": 1.5})], number=1)
    rows = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "name": "a", "more": None},
        {"id": 2, "name": "b", "more": 1.5},
    ]
    with pytest.raises(ConnectError, match="no Delta table"):
        write_sink(
            DeltaSink,
            {"delta.table": f"{tmp_path}/other", "delta.auto-create-enabled": "false"},
            [record(0, {"id": 1, "name": "a"})],
        )


def test_objects_are_read_once_and_again_when_they_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    from moto import mock_aws

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    with mock_aws():
        import boto3

        client = boto3.client("s3", region_name="us-east-1")
        config = {"s3.bucket.name": "lake", "s3.prefix": "in/", "topic": "t", "key.field": "id"}
        assert "cannot be used" in check_config(S3Source, config).results["s3.bucket.name"].errors[0]
        client.create_bucket(Bucket="lake")
        assert check_config(S3Source, config).error_count == 0
        for number in range(5):
            client.put_object(Bucket="lake", Key=f"in/{number}.jsonl", Body=b'{"id":%d}\n' % number)
        client.put_object(Bucket="lake", Key="out/9.jsonl", Body=b'{"id":9}\n')
        found = read_source(S3Source, {**config, "batch.max.objects": "2"})
        assert [each.key for each in found] == [0, 1, 2, 3, 4]
        reader: Any = S3Source("s", config).reader(config)
        end = reader.latest({})
        assert reader.latest(end) == end
        client.put_object(Bucket="lake", Key="in/3.jsonl", Body=b'{"id":33}\n{"id":34}')
        # The batch of the old object cannot be read any more; the new one is another batch.
        assert [each.key for part in reader.plan({}, end) for each in reader.read(part)] == [0, 1, 2, 4]
        again = reader.latest(end)
        assert [each.key for part in reader.plan(end, again) for each in reader.read(part)] == [33, 34]
        # What the sink writes as Parquet, the source reads.
        write_sink(
            S3Sink, {**config, "format": "parquet", "topics": "t"}, [record(4, {"id": 1, "name": "a"})]
        )
        back = read_source(S3Source, {**config, "s3.prefix": "topics/", "format": "parquet"})
        assert [each.value for each in back] == [{"id": 1, "name": "a"}]


class Server:
    """An HTTP server that remembers its requests, and answers as `answer` says."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.answer: Any = lambda path, body: (200, b"{}")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.requests.append((self.path, self.headers.get("idempotency-key", ""), body))
                status, content = outer.answer(self.path, body)
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def http() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def test_http_refusals_and_retries(http: Server) -> None:
    config = {"http.api.url": f"{http.url}/in/${{topic}}", "headers": "x-a:b"}
    http.answer = lambda path, body: (422, b"no") if b"bad" in body else (200, b"")
    rows = [
        record(0, {"id": 1, "name": "a"}),
        record(1, {"id": 2, "name": "bad"}),
        record(2, {"id": 3, "name": "c"}),
    ]
    refused = write_sink(HttpSink, config, rows)
    assert [(each.record.offset, "422" in each.reason) for each in refused] == [(1, True)]
    assert [(path, key) for path, key, _ in http.requests] == [("/in/t", f"t-0-{n}") for n in range(3)]
    http.requests.clear()
    refused = write_sink(HttpSink, {**config, "batch.max.size": "10"}, rows)
    assert [each.record.offset for each in refused] == [1]
    assert json.loads(http.requests[0][2]) == [row.value for row in rows]
    http.answer = lambda path, body: (503, b"")
    with pytest.raises(RetriableError):
        write_sink(HttpSink, config, rows)


def test_the_key_of_a_record_is_one_segment_of_an_address(http: Server) -> None:
    http.answer = lambda path, body: (200, b"")
    config = {"http.api.url": f"{http.url}/in/${{key}}"}
    write_sink(HttpSink, config, [record(0, {"id": 1, "name": "a"}, key="../admin?x=1#y")])
    assert [path for path, _, _ in http.requests] == ["/in/..%2Fadmin%3Fx%3D1%23y"]


def test_the_bulk_api_of_search(http: Server) -> None:
    """A fake of the bulk API: Debian 12 packages clients of OpenSearch and Elasticsearch, but no server."""

    def bulk(path: str, body: bytes) -> tuple[int, bytes]:
        items = []
        for line in body.splitlines():
            action = json.loads(line)
            if "index" in action or "delete" in action:
                ((kind, place),) = action.items()
                status = 400 if place["_id"] == "k1" else 409 if place["_id"] == "k2" else 200
                items.append({kind: {"status": status, "error": {"type": "mapper_parsing_exception"}}})
        return 200, json.dumps({"errors": True, "items": items}).encode()

    http.answer = bulk
    rows = [record(n, {"id": n, "name": "x"}, key=f"k{n}") for n in range(3)] + [record(3, None, key="k9")]
    refused = write_sink(SearchSink, {"connection.url": http.url}, rows)
    assert [each.record.offset for each in refused] == [1]  # 409: a newer version is there already
    lines = [json.loads(line) for line in http.requests[0][2].splitlines()]
    assert lines[0] == {"index": {"_index": "t", "_id": "k0", "version": 0, "version_type": "external_gte"}}
    assert lines[1] == {"id": 0, "name": "x"}
    assert list(lines[-1]) == ["delete"]


# Secrets, providers, errors.


def test_references_to_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_X", "s3")
    (tmp_path / "p.properties").write_text("user=me\n")
    (tmp_path / "password").write_text("pw")
    config = {
        "a": "${env::SECRET_X}",
        "b": f"${{file:{tmp_path}/p.properties:user}}",
        "c": f"x${{directory:{tmp_path}:password}}",
        "d": "${topic}-${timestamp}",
    }
    assert resolve(config) == {"a": "s3", "b": "me", "c": "xpw", "d": "${topic}-${timestamp}"}
    for wrong in (
        "${env::NOT_THERE}",
        f"${{directory:{tmp_path}:../x}}",
        f"${{file:{tmp_path}/p.properties:no}}",
    ):
        with pytest.raises(ConnectError):
            resolve({"a": wrong})


def test_secrets_are_hidden_and_kept() -> None:
    stored = {
        "connector.class": "PostgresSink",
        "connection.password": "pw",
        "connection.url": "u",
        "x.token": "t",
    }
    shown = masked(Plugins.load(), stored)
    assert shown == {**stored, "connection.password": HIDDEN, "x.token": HIDDEN}
    assert unmasked({**shown, "tasks.max": "2"}, stored) == {**stored, "tasks.max": "2"}
    assert unmasked({**stored, "connection.url": "new"}, stored) == {**stored, "connection.url": "new"}
    for elsewhere in (
        {"connection.url": "new"},
        {"connector.class": "JdbcSink"},
        {"proxy.host": "new"},
        {"connection.arguments": "host=evil.example"},
        {"connection.driver": "pymysql"},
        {"iceberg.catalog.uri": "https://evil.example"},
    ):
        with pytest.raises(WrongConfig, match="has changed, so give the value again"):
            unmasked({**shown, **elsewhere}, stored)
    reference = {**stored, "connection.password": "${env::PW}"}
    assert masked(Plugins.load(), reference)["connection.password"] == "${env::PW}"


def test_passwords_within_values_are_hidden_and_kept() -> None:
    stored = {
        "connector.class": "HttpSink",
        "http.api.url": "https://bob:pw@example.org/${topic}",
        "headers": "X-Trace:1,Authorization:Bearer abc,X-Api-Key: k",
        "connection.url": "jdbc:db://host/x?user=bob&password=pw",
        "connection.arguments": "host=db,password=pw,sslpassword = pw2",
        "iceberg.catalog": "uri=http://c,token=abc,s3.secret-access-key=k,credential=id:key",
    }
    shown = masked(Plugins.load(), stored)
    assert shown == {
        "connector.class": "HttpSink",
        "http.api.url": "https://bob:****@example.org/${topic}",
        "headers": "X-Trace:1,Authorization:****,X-Api-Key:****",
        "connection.url": "jdbc:db://host/x?user=bob&password=****",
        "connection.arguments": "host=db,password=****,sslpassword =****",
        "iceberg.catalog": "uri=http://c,token=****,s3.secret-access-key=****,credential=****",
    }
    assert unmasked({**shown, "tasks.max": "2"}, stored) == {**stored, "tasks.max": "2"}
    with pytest.raises(WrongConfig, match=r"http\.api\.url has changed, so give the value again"):
        unmasked({**shown, "http.api.url": "https://evil.example"}, stored)
    references = {"url": "https://bob:${env::PW}@h/a:b@c", "headers": "Authorization:${env::PW}"}
    assert masked(Plugins.load(), references) == references
    assert without_parts("GET https://bob:pw@h/ answers 500") == "GET https://bob:****@h/ answers 500"


@pytest.mark.parametrize("text", ["token" * 50_000, "api-key-" * 50_000])
def test_a_long_value_is_looked_through_in_no_time(text: str) -> None:
    """It took minutes, in the worker that answers all requests."""
    assert without_parts(text) == text
    assert without_parts(f"a=1,{text} = x") == f"a=1,{text} =****"


def test_a_bad_record_fails_or_is_skipped_or_is_a_dead_letter() -> None:
    raw = RawRecord("t", 2, 7, 0, b"k", b"{", (("h", b"1"),))
    config = {
        "key.converter": "StringConverter",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    strict = Pipeline.of(TaskSpec("c", 1, 0, "sink", "", config, DEFAULT_CONVERTERS))
    with pytest.raises(BadRecord) as caught:
        strict.incoming(raw)
    with pytest.raises(BadRecord):
        strict.note(caught.value, raw)
    tolerant = Pipeline.of(
        TaskSpec("c", 1, 0, "sink", "", {**config, "errors.tolerance": "all"}, DEFAULT_CONVERTERS)
    )
    tolerant.note(caught.value, raw)
    letter = tolerant.dead_letter(raw, caught.value)
    assert letter is not None
    headers = dict(letter.headers)
    assert (letter.topic, letter.key, letter.value, headers["h"]) == ("dead", b"k", b"{", b"1")
    assert {
        name: headers[f"__connect.errors.{name}"]
        for name in ("topic", "partition", "offset", "task.id", "stage")
    } == {
        "topic": b"t",
        "partition": b"2",
        "offset": b"7",
        "task.id": b"1",
        "stage": b"VALUE_CONVERTER",
    }
    assert headers["__connect.errors.exception.class.name"] == b"ottla.connect.errors.DataError"
    assert b"Traceback" in headers["__connect.errors.exception.stacktrace"]


def test_converters_are_those_of_the_connector_or_the_worker() -> None:
    found = converted({"value.converter": "StringConverter"}, Record("t", 5, key={"a": 1}))
    assert found is not None
    assert (found.key, found.value) == (b'{"a":1}', b"5")


@pytest.mark.parametrize("text", ["9" * 5000, "1" + "0" * 19, "2147483648", "²"])
def test_a_number_that_does_not_fit_is_no_error_of_ours(text: str) -> None:
    with pytest.raises(WrongConfig, match="Not a number of type INT"):
        parse_value("tasks.max", "INT", text)


def test_each_expression_of_a_list_has_its_own_flags_and_groups() -> None:
    """As the topics and groups of a mirror have them."""
    matches = any_of(["(?i)orders", r"(?<n>a)\1", r"(?<n>b)\1"])
    assert [each for each in ("Orders", "aa", "bb", "ab", "aab") if matches(each)] == ["Orders", "aa", "bb"]
    assert not any_of([])("")
