"""Connect's REST API on real workers and a real broker; the engine only says that tasks run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.connect_stage import IdleEngine, RunningWorker, made_checkpoint
from tests.waiting import wait_until

from ottla.client import Admin, Consumer, TopicPartition
from ottla.spark.checkpoint_lock import CheckpointLock
from ottla.testing.local_broker import OttlaBroker

DATAGEN = {"connector.class": "DatagenSource", "topic": "made", "tasks.max": "2"}


@pytest.fixture(scope="module")
def connect_broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as broker:
        yield broker


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.connect.herder.task_runner.EngineSupervisor", IdleEngine)


_groups = iter(range(100))


@pytest.fixture
def group() -> dict[str, str]:
    number = next(_groups)
    return {
        "group.id": f"g{number}",
        **{f"{each}.storage.topic": f"{each}-{number}" for each in ("config", "offset", "status")},
    }


@pytest.fixture
def worker(
    connect_broker: OttlaBroker, idle: None, group: dict[str, str], tmp_path: Path
) -> Iterator[RunningWorker]:
    with RunningWorker(connect_broker.bootstrap_servers, tmp_path, **group) as running:
        yield running


def stored(broker: OttlaBroker, topic: str) -> dict[str, Any]:
    """The latest value of each key."""
    found: dict[str, Any] = {}
    with Consumer(
        broker.bootstrap_servers, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        partitions = [TopicPartition(topic, each.index) for each in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < end for each, end in ends.items()):
            for records in consumer.getmany(timeout_ms=200).values():
                for each in records:
                    found[each.key.decode()] = None if each.value is None else json.loads(each.value)
    return found


def test_other_names_are_refused_without_login(worker: RunningWorker) -> None:
    """A page whose name resolves to this machine could have files read and sent away."""
    for host, status in (("evil.example:8083", 421), ("localhost:8083", 200)):
        assert httpx.get(f"{worker.url}/connectors", headers={"host": host}).status_code == status
    evil = {"origin": "http://evil.example"}
    assert httpx.post(f"{worker.url}/connectors/any/restart", headers=evil).status_code == 403


def test_the_life_of_a_connector(
    worker: RunningWorker, connect_broker: OttlaBroker, group: dict[str, str]
) -> None:
    created = worker("POST", "/connectors", {"name": "made", "config": DATAGEN})
    assert created.status == 201
    assert created.body == {
        "name": "made",
        "config": {**DATAGEN, "name": "made"},
        "tasks": [],
        "type": "source",
    }
    worker.wait_for("made", "RUNNING", "RUNNING", "RUNNING")
    assert worker("POST", "/connectors", {"name": "made", "config": DATAGEN}) == (
        409,
        {"error_code": 409, "message": "Connector made already exists"},
    )
    assert worker("GET", "/connectors").body == ["made"]
    expanded = worker("GET", "/connectors?expand=status&expand=info").body["made"]
    assert expanded["info"]["tasks"] == [{"connector": "made", "task": number} for number in range(2)]
    assert expanded["status"]["type"] == "source"
    tasks = worker("GET", "/connectors/made/tasks").body
    assert [each["id"] for each in tasks] == [{"connector": "made", "task": number} for number in range(2)]
    assert tasks[1]["config"]["task.number"] == "1"
    assert worker("GET", "/connectors/made/tasks/1/status").body["state"] == "RUNNING"

    # Connect's keys and values are in the topics.
    configs = stored(connect_broker, group["config.storage.topic"])
    assert configs["connector-made"] == {"properties": {**DATAGEN, "name": "made"}}
    assert configs["commit-made"] == {"tasks": 2}
    statuses = stored(connect_broker, group["status.storage.topic"])
    assert statuses["status-task-made-0"].keys() == {
        "state",
        "trace",
        "worker_id",
        "generation",
        "version",
    }

    assert worker("PUT", "/connectors/made/pause") == (202, None)
    worker.wait_for("made", "PAUSED", "PAUSED", "PAUSED")
    assert worker.engine.specs == {}
    assert worker("PUT", "/connectors/made/resume") == (202, None)
    worker.wait_for("made", "RUNNING", "RUNNING", "RUNNING")
    assert worker("PATCH", "/connectors/made/config", {"rate": "5", "tasks.max": "1"}).status == 200
    worker.wait_for("made", "RUNNING", "RUNNING")
    wait_until(
        lambda: "made-0" in worker.engine.specs and worker.engine.specs["made-0"].config.get("rate") == "5",
        "the new config to run",
    )

    assert worker("DELETE", "/connectors/made") == (204, None)
    wait_until(lambda: not worker.engine.specs, "the task to end")
    assert worker("GET", "/connectors/made").status == 404
    assert worker("GET", "/connectors/made/status").status == 404


def test_offsets_change_only_while_a_connector_is_stopped(
    worker: RunningWorker, connect_broker: OttlaBroker, group: dict[str, str]
) -> None:
    worker("POST", "/connectors", {"name": "made", "config": {**DATAGEN, "tasks.max": "1"}})
    worker.wait_for("made", "RUNNING", "RUNNING")
    worker.soon(worker.engine.report, "made-0", {'{"task":0}': {"count": 40}})
    shown = {"offsets": [{"partition": {"task": 0}, "offset": {"count": 40}}]}
    wait_until(lambda: worker("GET", "/connectors/made/offsets").body == shown, "the offsets")
    refused = worker("DELETE", "/connectors/made/offsets")
    assert refused.status == 400
    assert "must be in the STOPPED state before their offsets can be modified" in refused.body["message"]
    assert worker("PUT", "/connectors/made/stop") == (204, None)
    worker.wait_for("made", "STOPPED")
    change = {"offsets": [{"partition": {"task": 0}, "offset": {"count": 7}}]}
    assert worker("PATCH", "/connectors/made/offsets", change) == (
        200,
        {"message": "The offsets for this connector have been altered successfully"},
    )
    assert worker("GET", "/connectors/made/offsets").body == change
    wrong = {"offsets": [{"partition": {"task": 0}, "offset": {"count": "x"}}]}
    assert worker("PATCH", "/connectors/made/offsets", wrong).status == 400
    assert worker("PATCH", "/connectors/made/offsets", {"offsets": []}).status == 400
    assert stored(connect_broker, group["offset.storage.topic"]) == {'["made",{"task":0}]': {"count": 7}}
    worker("PUT", "/connectors/made/resume")
    worker.wait_for("made", "RUNNING", "RUNNING")
    assert worker.engine.specs["made-0"].offsets == {'{"task":0}': {"count": 7}}


def test_offsets_are_changed_when_the_tasks_have_ended(
    worker: RunningWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("END_WAIT_S", "SETTLE_WAIT_S"):
        monkeypatch.setattr(f"ottla.connect.herder.requests.{each}", 0.5)
    worker("POST", "/connectors", {"name": "made", "config": {**DATAGEN, "tasks.max": "1"}})
    worker.wait_for("made", "RUNNING", "RUNNING")
    worker.engine.last_reports["made-0"] = {'{"task":0}': {"count": 50}}
    worker.engine.may_stop.clear()
    assert worker("PUT", "/connectors/made/stop") == (204, None)
    change = {"offsets": [{"partition": {"task": 0}, "offset": {"count": 7}}]}
    for method, body in (("PATCH", change), ("DELETE", None)):
        assert worker(method, "/connectors/made/offsets", body).status in (409, 500)
    worker.soon(worker.engine.may_stop.set)
    wait_until(lambda: worker("PATCH", "/connectors/made/offsets", change).status == 200, "the task to end")
    assert worker("GET", "/connectors/made/offsets").body == change

    # A task may run on another worker, which has the lock of its checkpoint.
    checkpoint = worker.worker.options.checkpoints_of("made") / "0-other"
    with CheckpointLock(checkpoint):
        refused = worker("DELETE", "/connectors/made/offsets")
        assert refused.status == 500
        assert "have not stopped completely yet" in refused.body["message"]
    assert worker("DELETE", "/connectors/made/offsets").status == 200
    assert not checkpoint.exists()


def test_requests_at_once_do_not_undo_each_other(worker: RunningWorker) -> None:
    with ThreadPoolExecutor(8) as pool:

        def at_once(method: str, path: str, bodies: list[Any]) -> list[int]:
            return sorted(pool.map(lambda body: worker(method, path, body).status, bodies))

        created = [{"name": "made", "config": {**DATAGEN, "k": str(number)}} for number in range(8)]
        assert at_once("POST", "/connectors", created) == [201] + [409] * 7
        keys = {f"k{number}": "1" for number in range(8)}
        patches = [{key: value} for key, value in keys.items()]
        assert at_once("PATCH", "/connectors/made/config", patches) == [200] * 8
        assert keys.items() <= worker("GET", "/connectors/made/config").body.items()


def test_the_offsets_of_a_sink_are_those_of_its_group(
    worker: RunningWorker, connect_broker: OttlaBroker, tmp_path: Path
) -> None:
    with Admin(connect_broker.bootstrap_servers) as admin:
        admin.create_topic("sunk", partitions=3)
    sink = {"connector.class": "FileSink", "topics": "sunk", "path": str(tmp_path / "out"), "tasks.max": "2"}
    assert worker("PUT", "/connectors/down/config", sink).status == 201
    worker.wait_for("down", "RUNNING", "RUNNING", "RUNNING")
    shares = [json.loads(each.config["task.partitions"]) for each in worker.engine.specs.values()]
    assert sorted(number for share in shares for number in share["sunk"]) == [0, 1, 2]
    assert worker("GET", "/connectors/down/offsets").body == {"offsets": []}
    worker("PUT", "/connectors/down/stop")
    place = {"kafka_topic": "sunk", "kafka_partition": 1}
    change = {"offsets": [{"partition": place, "offset": {"kafka_offset": 5}}]}
    assert worker("PATCH", "/connectors/down/offsets", change).status == 200
    assert worker("GET", "/connectors/down/offsets").body == change
    worker("PUT", "/connectors/down/resume")
    worker.wait_for("down", "RUNNING", "RUNNING", "RUNNING")
    starts = {
        topic: number
        for each in worker.engine.specs.values()
        for topic, number in each.offsets["sunk"].items()
    }
    assert starts == {"0": -2, "1": 5, "2": -2}
    worker("PUT", "/connectors/down/stop")
    assert worker("DELETE", "/connectors/down/offsets").status == 200
    assert worker("GET", "/connectors/down/offsets").body == {"offsets": []}


def test_a_task_waits_for_earlier_ones_and_begins_where_they_ended(
    worker: RunningWorker, connect_broker: OttlaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.connect.herder.old_checkpoints.WAIT_S", 0.0)
    options = worker.worker.options
    # The tables of the source were divided otherwise before, and another worker is at the last batch of it.
    old = made_checkpoint(
        options.checkpoints_of("made") / "0-old", [{'{"task":0}': {"count": 9}}], done=1, base={}
    )
    with Admin(connect_broker.bootstrap_servers) as admin:
        admin.create_topic("held", partitions=1)
    ends = [{"held": {"0": 4}}, {"held": {"0": 6}}]
    old_sink = made_checkpoint(options.checkpoints_of("down") / "1-old", ends, done=1)
    sink = {"connector.class": "FileSink", "topics": "held", "path": str(tmp_path / "out")}
    with CheckpointLock(old), CheckpointLock(old_sink):
        worker("POST", "/connectors", {"name": "made", "config": {**DATAGEN, "tasks.max": "1"}})
        worker("PUT", "/connectors/down/config", sink)
        for name in ("made", "down"):
            worker.wait_for(name, "RUNNING", "RESTARTING")
            trace = worker("GET", f"/connectors/{name}/tasks/0/status").body["trace"]
            assert "has not ended yet" in trace
        assert worker.engine.starts == []
    worker.wait_for("made", "RUNNING", "RUNNING")
    worker.wait_for("down", "RUNNING", "RUNNING")
    assert worker.engine.specs["made-0"].offsets == {'{"task":0}': {"count": 9}}
    assert worker.engine.specs["down-0"].offsets == {"held": {"0": 4}}
    assert not old.exists()
    assert not old_sink.exists()


def test_failures_restarts_and_secrets(worker: RunningWorker) -> None:
    config = {**DATAGEN, "tasks.max": "1", "producer.override.sasl.jaas.config": "secret"}
    answer = worker("POST", "/connectors", {"name": "made", "config": config})
    assert answer.body["config"]["producer.override.sasl.jaas.config"] == "[hidden]"
    worker.wait_for("made", "RUNNING", "RUNNING")
    # What was read may be written back: a hidden value stays what it was.
    assert worker("PUT", "/connectors/made/config", {**answer.body["config"], "rate": "3"}).status == 200
    wait_until(
        lambda: worker.engine.specs.get("made-0") and worker.engine.specs["made-0"].config.get("rate") == "3",
        "the new rate",
    )
    assert worker.engine.specs["made-0"].config["producer.override.sasl.jaas.config"] == "secret"

    worker.soon(worker.engine.fail, "made-0", "it went away", retriable=True)
    wait_until(
        lambda: len(worker.engine.starts) >= 3 and worker.states("made") == ["RUNNING", "RUNNING"],
        "the task to be restarted by itself",
    )
    worker.soon(worker.engine.fail, "made-0", "Traceback: http://ann:pw@db: boom", retriable=False)
    worker.wait_for("made", "RUNNING", "FAILED")
    trace = worker("GET", "/connectors/made/tasks/0/status").body["trace"]
    assert trace == "Traceback: http://ann:****@db: boom"
    restarted = worker("POST", "/connectors/made/restart?includeTasks=true&onlyFailed=true")
    assert restarted.status == 202
    assert [each["state"] for each in restarted.body["tasks"]] == ["RESTARTING"]
    assert restarted.body["connector"]["state"] == "RUNNING"
    worker.wait_for("made", "RUNNING", "RUNNING")
    runs = len(worker.engine.starts)
    assert worker("POST", "/connectors/made/tasks/0/restart") == (204, None)
    wait_until(lambda: len(worker.engine.starts) > runs, "the task to be started again")
    assert worker("POST", "/connectors/made/restart") == (204, None)
    assert worker("POST", "/connectors/made/tasks/9/restart").status == 404
    metrics = worker.do(_metrics(worker))
    assert 'kafka_connect_connector_task_status{connector="made",status=' in metrics


async def _metrics(worker: RunningWorker) -> str:
    import asyncio
    from urllib.request import urlopen

    return await asyncio.to_thread(lambda: urlopen(worker.url + "/metrics").read().decode())


def test_wrong_requests_get_connects_answers(worker: RunningWorker) -> None:
    unknown = {"connector.class": "Nothing"}
    assert worker("POST", "/connectors", {"name": "x", "config": unknown}).status == 400
    assert worker("POST", "/connectors", {"name": "x", "config": {}}).status == 400
    assert worker("POST", "/connectors", {"name": "x", "config": {**DATAGEN, "name": "y"}}).status == 400
    assert worker("POST", "/connectors", b"{").status == 400
    misspelt = worker("POST", "/connectors", {"name": "x", "config": DATAGEN, "initialState": "PAUSED"})
    assert (misspelt.status, "initialState" in misspelt.body["message"]) == (400, True)
    assert worker("POST", "/connectors", {"name": "x" * 40_000, "config": DATAGEN}).status == 400
    invalid = worker(
        "POST", "/connectors", {"name": "x", "config": {"connector.class": "DatagenSource", "rate": "a"}}
    )
    assert invalid.status == 400
    assert "contains the following 2 error(s):" in invalid.body["message"]
    assert 'Missing required configuration "topic" which has no default value.' in invalid.body["message"]
    for method, path in (
        ("GET", "/connectors/x"),
        ("GET", "/connectors/x/status"),
        ("GET", "/connectors/x/config"),
        ("PUT", "/connectors/x/pause"),
        ("PUT", "/connectors/x/stop"),
        ("POST", "/connectors/x/restart"),
        ("DELETE", "/connectors/x"),
        ("GET", "/connectors/x/offsets"),
        ("GET", "/nowhere"),
    ):
        assert worker(method, path).status == 404, path
    assert worker("PATCH", "/connectors").status == 405


def test_references_read_what_the_worker_allows(
    connect_broker: OttlaBroker, idle: None, group: dict[str, str], tmp_path: Path
) -> None:
    limits = {"config.providers.env.param.allowlist.pattern": "CONNECT_.*"}
    with RunningWorker(connect_broker.bootstrap_servers, tmp_path, **group, **limits) as worker:
        refused = worker("PUT", "/connectors/made/config", {**DATAGEN, "topic": "${env::PATH}"})
    assert refused.status == 400
    assert "PATH does not match config.providers.env.param.allowlist.pattern" in refused.body["message"]


def test_plugins_validation_and_loggers(worker: RunningWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    root = worker("GET", "/").body
    assert root.keys() == {"version", "commit", "kafka_cluster_id"}
    assert worker("GET", "/health").body["status"] == "healthy"
    plugins = worker("GET", "/connector-plugins").body
    assert {"source", "sink"} == {each["type"] for each in plugins}
    everything = worker("GET", "/connector-plugins?connectorsOnly=false").body
    assert "org.apache.kafka.connect.json.JsonConverter" in [each["class"] for each in everything]
    keys = worker("GET", "/connector-plugins/DatagenSource/config").body
    assert keys[0]["name"] == "topic"
    assert worker("GET", "/connector-plugins/Nothing/config").status == 404

    config = {
        "name": "x",
        "connector.class": "DatagenSource",
        "rate": "-1",
        "template": "cats",
        "topic": "${env::NO_SUCH}",
        "transforms": "a",
        "transforms.a.type": "Cast$Value",
        "transforms.a.predicate": "none",
        "value.converter": "NoConverter",
    }
    found = worker("PUT", "/connector-plugins/DatagenSource/config/validate", config).body
    errors = {
        each["value"]["name"]: each["value"]["errors"] for each in found["configs"] if each["value"]["errors"]
    }
    assert found["error_count"] == len(errors) == 6
    assert errors["rate"] == ["Invalid value -1 for configuration rate: Value must be at least 0"]
    assert "String must be one of" in errors["template"][0]
    assert errors["transforms.a.spec"] == [
        'Missing required configuration "transforms.a.spec" which has no default value.'
    ]
    assert "NO_SUCH" in errors["topic"][0]
    template = next(each for each in found["configs"] if each["value"]["name"] == "template")
    assert template["value"]["recommended_values"] == ["orders", "users", "pageviews"]
    mismatch = worker("PUT", "/connector-plugins/FileSink/config/validate", config)
    assert mismatch.status == 400

    changed = worker("PUT", "/admin/loggers/ottla.connect.testlogger", {"level": "DEBUG"})
    assert changed == (200, ["ottla.connect.testlogger"])
    shown = worker("GET", "/admin/loggers/ottla.connect.testlogger").body
    assert shown["level"] == "DEBUG"
    assert isinstance(shown["last_modified"], int)
    assert worker("PUT", "/admin/loggers/ottla.connect.testlogger", {"level": "LOUD"}).status == 404
    assert worker("PUT", "/admin/loggers/ottla.connect.testlogger", {}).status == 400
    assert worker("GET", "/admin/loggers/never.was").status == 404
    assert "root" in worker("GET", "/admin/loggers").body
    cluster_wide = worker("PUT", "/admin/loggers/ottla.connect.testlogger?scope=cluster", {"level": "ERROR"})
    assert cluster_wide == (204, None)


def test_two_workers_share_the_tasks_and_one_takes_over(
    connect_broker: OttlaBroker, idle: None, group: dict[str, str], tmp_path: Path
) -> None:
    with RunningWorker(connect_broker.bootstrap_servers, tmp_path, **group) as first:
        first("POST", "/connectors", {"name": "made", "config": {**DATAGEN, "tasks.max": "5"}})
        first.wait_for("made", *["RUNNING"] * 6)
        with RunningWorker(connect_broker.bootstrap_servers, tmp_path, **group) as second:
            wait_until(
                lambda: len(first.engine.specs) + len(second.engine.specs) == 5 and second.engine.specs,
                "the tasks to be shared",
            )
            assert not set(first.engine.specs) & set(second.engine.specs)
            assert abs(len(first.engine.specs) - len(second.engine.specs)) <= 2
            first.wait_for("made", *["RUNNING"] * 6)
            workers = {each["worker_id"] for each in second("GET", "/connectors/made/status").body["tasks"]}
            assert workers == {first.url[7:], second.url[7:]}
            # A request that the other worker must answer is passed on to it.
            assert second("PUT", "/connectors/more/config", {**DATAGEN, "topic": "more"}).status == 201
            for task in range(5):
                assert first("POST", f"/connectors/made/tasks/{task}/restart").status == 204
                assert second("POST", f"/connectors/made/tasks/{task}/restart").status == 204
            second("DELETE", "/connectors/more")
        wait_until(lambda: len(first.engine.specs) == 5, "the first worker to take over")
        first.wait_for("made", *["RUNNING"] * 6)
