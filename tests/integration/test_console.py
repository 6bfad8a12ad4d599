"""The console's API and what it refuses, without a browser."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pyarrow.parquet as pq
import pytest
from tests.integration.console_stage import CLUSTER, RunningConsole

from ottla.client import Consumer, Producer
from ottla.client.admin import Admin
from ottla.console.openapi import describe
from ottla.console.views import SECTIONS
from ottla.http.limits import HttpLimits
from ottla.spark.pipelines.run.state import new_state
from ottla.spark.pipelines.run.storage import open_storage
from ottla.testing.local_broker import OttlaBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topic("orders", partitions=3)
        with Producer(running.bootstrap_servers, compression_type="gzip") as producer:
            for i in range(5_000):
                value = json.dumps({"n": i, "name": f"n-{i}"}).encode()
                producer.send(
                    "orders", value, key=b"k-%d" % i, partition=i % 3, headers=[("h", b"%d" % (i % 7))]
                )
        with Consumer(running.bootstrap_servers, group_id="readers", topics="orders") as consumer:
            consumer.poll(3_000)
            consumer.commit()
        yield running


@pytest.fixture(scope="module")
def console(broker: OttlaBroker) -> Iterator[RunningConsole]:
    with RunningConsole(broker.bootstrap_servers, limits=HttpLimits(max_body_bytes=100_000)) as running:
        yield running


@pytest.fixture
def api(console: RunningConsole) -> Iterator[httpx.Client]:
    with console.api() as client:
        yield client


def test_a_topic_lives_by_the_api(api: httpx.Client, broker: OttlaBroker) -> None:
    made = api.post("/topics", json={"name": "by-api", "partitions": 2, "config": {"retention.ms": "5000"}})
    assert made.status_code == 200
    assert api.post("/topics", json={"name": "by-api"}).json()["error_code"] == 422
    assert len(api.get("/topics/by-api").json()["partitions"]) == 2
    found = {each["name"]: each for each in api.get("/topics/by-api/configs").json()["configs"]}
    assert found["retention.ms"]["value"] == "5000"
    assert found["retention.ms"]["default"] == "604800000"
    assert found["retention.ms"]["doc"]
    changed = api.post(
        "/topics/by-api/configs", json={"config": {"max.message.bytes": "9"}, "unset": ["retention.ms"]}
    )
    assert changed.status_code == 200
    stored = api.post(
        "/topics/orders/messages", json={"key": "k", "value": "v", "headers": {"a": "b"}}
    ).json()
    assert stored["offset"] >= 0
    assert api.post("/topics/by-api/delete", json={"confirm": "no"}).status_code == 422
    assert api.post("/topics/by-api/delete", json={"confirm": "by-api"}).status_code == 200
    assert api.get("/topics/by-api").status_code == 404
    actions = [each["action"] for each in api.get("/audit").json()["lines"]]
    assert actions[:3] == ["Delete a topic", "Delete a topic", "Produce a message"]


def test_pages_of_messages_go_through_all_of_them_both_ways(api: httpx.Client) -> None:
    for start in ("newest", "oldest"):
        seen: list[tuple[int, int]] = []
        query = {"start": start, "limit": "700"}
        while True:
            page = api.get("/topics/orders/messages", params=query).json()
            seen += [(each["partition"], each["offset"]) for each in page["messages"]]
            if page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
        assert len(seen) == len(set(seen)) >= 5_000


def events(text: str) -> list[tuple[str, object]]:
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"where": "$.n >= 4990"}, 10),
        ({"where": "$.name = 'n-4321'"}, 1),
        ({"key": "k-4321"}, 1),
        ({"text": '"name": "n-4321"'}, 1),
        ({"header": "h=3", "where": "$.n < 70"}, 10),
        ({"where": "partition = 1 AND offset < 10"}, 10),
        ({"where": "key = 'nobody-there'"}, 0),
        ({"where": "$.n >= 0", "limit": "500"}, 500),
    ],
)
def test_a_search_finds_what_is_there(api: httpx.Client, query: dict[str, str], count: int) -> None:
    found = events(api.get("/topics/orders/search", params={"limit": "1000", **query}).text)
    last = [data for name, data in found if name == "progress"][-1]
    assert isinstance(last, dict)
    assert last["found"] == count
    assert last["done"]
    assert found[-1][0] == "end"
    if count < 500:
        assert last["scanned"] == last["total"] >= 5_000


@pytest.mark.parametrize("start", ["newest", "oldest"])
def test_a_search_can_be_continued(api: httpx.Client, start: str) -> None:
    query = {"where": "$.n >= 0", "limit": "1000", "start": start}
    total = 0
    while True:
        last = [
            data
            for name, data in events(api.get("/topics/orders/search", params=query).text)
            if name == "progress"
        ][-1]
        assert isinstance(last, dict)
        total += last["found"]
        if not last["cursor"]:
            break
        query["cursor"] = last["cursor"]
    assert total >= 5_000


@pytest.mark.parametrize("start", ["newest", "", "oldest"])
def test_a_search_begins_at_the_given_position(api: httpx.Client, start: str) -> None:
    query = {"where": "$.n >= 0", "limit": "5", "start": start}
    found = events(api.get("/topics/orders/search", params=query).text)
    keys = [
        int(each) for name, data in found if name == "rows" for each in re.findall(r">k-(\d+)<", str(data))
    ]
    assert len(keys) == 5
    assert all(each < 1_000 if start == "oldest" else each > 4_000 for each in keys)


def test_exports_have_every_record(api: httpx.Client) -> None:
    query = {"where": "$.n >= 0"}
    lines = api.get("/topics/orders/export", params={**query, "format": "json"}).text.splitlines()
    assert sorted(json.loads(line)["value"]["n"] for line in lines) == list(range(5_000))
    rows = api.get("/topics/orders/export", params={**query, "format": "csv"}).text.splitlines()
    assert len(rows) == 5_001
    table = pq.read_table(
        io.BytesIO(api.get("/topics/orders/export", params={**query, "format": "parquet"}).content)
    )
    assert table.num_rows == 5_000
    assert sorted(json.loads(each)["n"] for each in table["value"].to_pylist()) == list(range(5_000))
    assert api.get("/topics/orders/export", params={"format": "xls"}).status_code == 400


def test_what_is_wrong_is_said(api: httpx.Client) -> None:
    for path, status in (
        ("/topics/none", 404),
        ("/topics/none/messages", 404),
        ("/topics/orders/messages?start=noon", 400),
        ("/topics/orders/search?start=noon", 400),
        ("/topics/orders/export?format=xls", 400),
        ("/topics/orders/messages/0/999999/raw", 404),
        ("/topics/orders/messages?start=offset&at=x", 400),
        ("/topics/orders/messages?cursor=x", 400),
        ("/topics/orders/messages?where=%24.a%20%3E", 400),
        ("/topics/orders/messages?value_format=xml", 400),
        ("/topics/orders/messages/0/999999", 404),
        ("/topics/orders/messages/x/y", 404),
        ("/groups/none", 404),
        ("/brokers/77", 404),
        ("/schemas/none", 404),
    ):
        answer = api.get(path)
        assert answer.status_code == status, path
        assert answer.json()["message"]
    assert api.post("/groups/readers/reset", json={"target": "never"}).status_code == 422
    assert api.post("/topics", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert api.post("/topics", json=[]).status_code == 400


def test_forged_requests_are_refused(console: RunningConsole) -> None:
    with console.browser() as browser:
        page = browser.get("/create-topic")
        token = page.text.split('name="_csrf" value="')[1].split('"')[0]
        form = {"name": "forged", "partitions": "1", "replication": "1"}
        assert browser.post("/topics", data=form).status_code == 403
        assert browser.post("/topics", data={**form, "_csrf": "guess"}).status_code == 403
        evil = {"origin": "http://evil.example.org"}
        assert browser.post("/topics", data={**form, "_csrf": token}, headers=evil).status_code == 403
        assert browser.get("/topics", headers={"host": "evil.example.org"}).status_code == 421
        plain = httpx.post(
            f"{console.server.url}/api/clusters/{CLUSTER}/topics",
            content=b'{"name": "forged"}',
            headers={"content-type": "text/plain"},
        )
        assert plain.status_code == 415
        assert browser.post("/topics", data={**form, "_csrf": token}).status_code == 303
        assert "forged is created" in browser.get("/topics").text
        assert "forged is created" not in browser.get("/topics").text, "it is said once"
        big = browser.post("/topics", content=b"x" * 100_001)
        assert big.status_code == 413


def test_half_a_character_does_not_spoil_the_audit_log(api: httpx.Client) -> None:
    body, kind = b'{"name": "half", "note": "\\ud800"}', {"content-type": "application/json"}
    assert api.post("/topics", content=body, headers=kind).status_code == 400
    assert api.get("/audit").status_code == 200


def test_files_are_served_and_nothing_beside_them(console: RunningConsole) -> None:
    server = console.server.url
    answer = httpx.get(f"{server}/static/app.css")
    assert answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
    for path in (
        "/static/..%2Fapp.py",
        "/static/vendor/..%2F..%2Fapp.py",
        "/static/htmx.LICENSE",
        "/etc/passwd",
    ):
        assert httpx.get(server + path).status_code == 404


def test_the_description_of_the_api_is_whole(console: RunningConsole) -> None:
    found = httpx.get(f"{console.server.url}/api/openapi.json").json()
    assert found == json.loads(json.dumps(describe(SECTIONS)))
    operations = [each["operationId"] for path in found["paths"].values() for each in path.values()]
    assert len(operations) == len(set(operations)) > 60


def test_history_grows_and_events_come(api: httpx.Client, console: RunningConsole) -> None:
    with api.stream("GET", "/events") as stream:
        text = ""
        for part in stream.iter_text():
            text += part
            if text.count("event: numbers") >= 3:
                break
    found = api.get("/history", params={"series": "records|lag|topic.orders.bytes"}).json()
    assert len(found["times"]) >= 2
    assert found["series"] == ["records", "lag", "topic.orders.bytes"]


def test_offsets_are_reset(api: httpx.Client, broker: OttlaBroker) -> None:
    preview = api.post(
        "/groups/readers/preview-reset", json={"target": "offset", "value": 5, "topic": "orders"}
    ).json()
    assert {each["after"] for each in preview["moves"]} == {5}
    assert api.post("/groups/readers/reset", json={"target": "shift", "value": -2}).status_code == 200
    assert api.post("/groups/readers/reset", json={"target": "earliest"}).status_code == 200
    with Admin(broker.bootstrap_servers) as admin:
        assert {each.offset for each in admin.group_offsets("readers").values()} == {0}


def test_offsets_in_a_topic_are_deleted(api: httpx.Client, broker: OttlaBroker) -> None:
    with Consumer(broker.bootstrap_servers, group_id="leaver", topics="orders") as consumer:
        consumer.poll(3_000)
        consumer.commit()
    given = {"topic": "orders", "confirm": "leaver"}
    assert api.post("/groups/leaver/delete-offsets", json={**given, "confirm": "x"}).status_code == 422
    assert api.post("/groups/leaver/delete-offsets", json=given).status_code == 200
    with Admin(broker.bootstrap_servers) as admin:
        assert admin.group_offsets("leaver") == {}
    assert "has no offsets in" in api.post("/groups/leaver/delete-offsets", json=given).json()["message"]
    assert api.post("/groups/leaver/delete", json={"confirm": "leaver"}).status_code == 200


def test_columns_are_parts_of_values(api: httpx.Client, console: RunningConsole) -> None:
    query = {"start": "offset", "at": "7", "partition": "1", "limit": "2", "columns": "$.name, n"}
    found = api.get("/topics/orders/messages", params=query).json()
    assert [each["columns"] for each in found["messages"]] == [["n-22", "22"], ["n-25", "25"]]
    assert found["columns"] == ["$.name", "$.n"]
    events = api.get("/topics/orders/search", params={**query, "where": "$.n = 25"}).text
    assert ">n-25</td>" in events
    assert api.get("/topics/orders/messages", params={"columns": "$.a b"}).status_code == 400
    with console.browser() as pages:
        page = pages.get("/topics/orders/messages", params=query).text
    assert '<th scope="col" class="mono">$.name</th>' in page
    assert ">n-22</td>" in page


def test_a_missing_topic_is_named(api: httpx.Client, console: RunningConsole) -> None:
    assert api.get("/topics/nosuch").json()["message"] == "There is no topic nosuch."
    with console.browser() as pages:
        assert "There is no topic nosuch." in pages.get("/topics/nosuch").text


def test_groups_by_type(api: httpx.Client) -> None:
    assert [each["name"] for each in api.get("/groups?type=classic").json()["groups"]] == ["readers"]
    assert api.get("/groups?type=share").json()["groups"] == []


@pytest.fixture
def pipeline(tmp_path: Path, broker: OttlaBroker) -> Iterator[RunningConsole]:
    """A console of a pipeline whose driver is this process, with dead letters."""
    state = new_state("shop", "shop", "local[1]", 1)
    state.state, state.dead_letters = "running", ["dead", "not-written-yet"]
    storage = open_storage(tmp_path, "shop", tmp_path)
    storage.home.mkdir(exist_ok=True)
    state.write(storage)
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("dead", partitions=2)
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(3):
            source = [("ottla.source.topic", b"orders"), ("ottla.source.partition", b"1")]
            headers = [("ottla.error", b"not JSON"), *source, ("ottla.source.offset", b"%d" % number)]
            producer.send("dead", b"<b>%d</b>" % number, headers=headers)
    with RunningConsole(broker.bootstrap_servers, pipelines=tmp_path) as running:
        yield running


def test_pipelines_are_restarted_and_their_dead_letters_shown(
    pipeline: RunningConsole, tmp_path: Path
) -> None:
    home = tmp_path / "shop"
    with pipeline.api() as api:
        letters = api.get("/pipelines/shop/dead-letters").json()
        assert {each["reason"] for each in letters["letters"]} == {"not JSON"}
        assert sorted(each["source"] for each in letters["letters"]) == [
            ["orders", "1", str(number)] for number in range(3)
        ]
        assert letters["missing"] == ["not-written-yet"]
        for what, file in (("restart", "restart"), ("pause", "paused")):
            assert api.post(f"/pipelines/shop/{what}", json={}).status_code == 200
            assert (home / file).exists()
        assert api.post("/pipelines/shop/resume", json={}).status_code == 200
        assert not (home / "paused").exists()
    with pipeline.browser() as pages:
        page = pages.get("/pipelines/shop/dead-letters").text
        assert "/topics/orders/messages/1/2" in page
        assert "&lt;b&gt;2&lt;/b&gt;" in page
        assert "Restart" in pages.get("/pipelines/shop").text


def test_large_values_are_searched_and_exported_whole(
    api: httpx.Client, broker: OttlaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("large", configs={"max.message.bytes": "8000000"})
    value = json.dumps({"filler": "x" * 3_000_000, "last": "needle"})
    with Producer(broker.bootstrap_servers, max_request_size=8_000_000) as producer:
        producer.send("large", value.encode())
    query = {"where": "$.last = 'needle'"}
    lines = api.get("/topics/large/export", params={**query, "format": "json"}).text.splitlines()
    assert [json.loads(line)["value"]["last"] for line in lines] == ["needle"]
    monkeypatch.setattr("ottla.console.views.messages.SEARCHED_BYTES", 1_000_000)
    lines = api.get("/topics/large/export", params={"format": "json"}).text.splitlines()
    assert [json.loads(line)["value"] for line in lines] == [value], "as text, but whole"
    events = api.get("/topics/large/search", params=query).text
    assert '"found": 0' in events
    assert '"partly": 1' in events
    shown = api.get("/topics/large/messages/0/0").json()
    assert (shown["message"]["value"]["cut"], shown["can_load_more"]) == (True, True)


@pytest.mark.parametrize(
    "number", ["1" + "0" * 30, "9" * 4_400, "²", "\ud800", "-9223372036854775809", "1e3"]
)
def test_numbers_that_no_field_can_hold_are_refused(api: httpx.Client, number: str) -> None:
    body = {"name": "n", "hmac": number, "confirm": "orders", "target": "offset", "topic": "orders"}
    names = ("partitions", "replication", "total", "partition", "value", "before", "rate", "broker", "hours")
    body |= dict.fromkeys(names, number)
    for path in (
        "/topics",
        "/topics/orders/partitions",
        "/topics/orders/delete-records",
        "/groups/readers/preview-reset",
        "/groups/readers/reset",
        "/reassignments/preview",
        "/reassignments",
        "/tokens",
        "/tokens/expire",
    ):
        headers = {"content-type": "application/json"}
        answer = api.post(path, content=json.dumps(body), headers=headers)
        assert answer.status_code in (400, 422), path
    assert api.get(f"/brokers/{quote(number, errors='replace')}").status_code == 404
    query = {"start": "time", "at": number.encode(errors="replace").decode()}
    assert api.get("/topics/orders/messages", params=query).status_code == 400


@pytest.mark.parametrize("at", ["0001-01-01", "1969-12-31T23:59:59.999"])
def test_times_to_which_brokers_give_other_meanings_are_refused(api: httpx.Client, at: str) -> None:
    answer = api.get("/topics/orders/messages", params={"start": "time", "at": at})
    assert answer.status_code == 400
    assert "is not a time since 1970" in answer.text


def test_services_that_do_not_answer_are_not_called_absent(broker: OttlaBroker) -> None:
    nowhere = "http://127.0.0.1:1"
    with (
        RunningConsole(broker.bootstrap_servers, nowhere, connect_url=nowhere) as console,
        console.browser() as pages,
    ):
        for path in ("/schemas", "/connectors"):
            text = pages.get(f"{console.url}{path}").text
            assert "does not answer" in text
            assert "or correct its URL" in text
            assert "There is no" not in text
