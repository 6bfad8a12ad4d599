"""The calls of kcctl, kafbat UI and Redpanda Console as they send them: each is answered as Connect does.

kcctl: `KafkaConnectApi`; kafbat UI: `kafka-connect-api.yaml`; Redpanda Console: its library `connect-client`.
All send `Content-Type: application/json`, also without a body.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.integration.connect_stage import IdleEngine, RunningWorker

from ottla.testing.local_broker import OttlaBroker

CONFIG = {"connector.class": "DatagenSource", "topic": "made", "tasks.max": "1"}
NEW = {"name": "made", "config": CONFIG}
PLACE = {"partition": {"task": 0}, "offset": {"count": 3}}
TASK_ID = {"connector": str, "task": int}
INFO = {"name": str, "config": {}, "tasks": [TASK_ID], "type": str}
STATE = {"state": str, "worker_id": str}
STATUS = {"name": str, "connector": STATE, "tasks": [{"id": int, **STATE}], "type": str}
KEY = {
    "name": str,
    "type": str,
    "required": bool,
    "importance": str,
    "documentation": str,
    "group": str | None,
    "width": str,
    "display_name": str,
    "dependents": [str],
    "order": int,
}
VALUE = {"name": str, "recommended_values": [str], "errors": [str], "visible": bool}
VALIDATION = {
    "name": str,
    "error_count": int,
    "groups": [str],
    "configs": [{"definition": KEY, "value": VALUE}],
}
PLUGIN = {"class": str, "type": str, "version": str}
ROOT = {"version": str, "commit": str, "kafka_cluster_id": str}
MESSAGE = {"message": str}
LEVEL = {"level": str}
OFFSETS = {"offsets": [{"partition": {}, "offset": {}}]}
ERROR = {"error_code": int, "message": str}

KCCTL: list[tuple[str, str, Any, int, Any]] = [
    ("GET", "/", None, 200, ROOT),
    ("GET", "/connector-plugins", None, 200, [PLUGIN]),
    ("GET", "/connector-plugins?connectorsOnly=false", None, 200, [PLUGIN]),
    ("GET", "/connector-plugins/DatagenSource/config", None, 200, [KEY]),
    ("PUT", "/connector-plugins/DatagenSource/config/validate", CONFIG, 200, VALIDATION),
    ("GET", "/connectors/", None, 200, [str]),
    ("POST", "/connectors/", NEW, 201, {**INFO, "tasks": []}),
    ("POST", "/connectors/", NEW, 409, ERROR),
    ("GET", "/connectors/made", None, 200, INFO),
    ("GET", "/connectors?expand=info&expand=status", None, 200, {"made": {"info": INFO, "status": STATUS}}),
    ("GET", "/connectors/made/status", None, 200, STATUS),
    ("GET", "/connectors/made/topics", None, 200, {"made": {"topics": [str]}}),
    ("GET", "/connectors/made/config", None, 200, {}),
    ("GET", "/connectors/made/tasks", None, 200, [{"id": TASK_ID, "config": {}}]),
    ("PUT", "/connectors/made/config", {**CONFIG, "rate": "2"}, 200, INFO),
    ("POST", "/connectors/made/restart", None, 204, None),
    ("POST", "/connectors/made/restart?includeTasks=true&onlyFailed=false", None, 202, STATUS),
    ("POST", "/connectors/made/tasks/0/restart", None, 204, None),
    ("PUT", "/connectors/made/pause", None, 202, None),
    ("PUT", "/connectors/made/resume", None, 202, None),
    ("DELETE", "/connectors/made/offsets", None, 400, ERROR),
    ("PUT", "/connectors/made/stop", None, 204, None),
    ("PATCH", "/connectors/made/offsets", {"offsets": [PLACE]}, 200, MESSAGE),
    ("GET", "/connectors/made/offsets", None, 200, OFFSETS),
    ("DELETE", "/connectors/made/offsets", None, 200, MESSAGE),
    ("PUT", "/admin/loggers/ottla.connect.ui", {"level": "DEBUG"}, 200, [str]),
    ("PUT", "/admin/loggers/ottla.connect.ui?scope=cluster", {"level": "DEBUG"}, 204, None),
    ("GET", "/admin/loggers/ottla.connect.ui", None, 200, LEVEL),
    ("GET", "/admin/loggers", None, 200, {"root": LEVEL}),
    ("DELETE", "/connectors/made", None, 204, None),
    ("GET", "/connectors/made", None, 404, ERROR),
]

KAFBAT: list[tuple[str, str, Any, int, Any]] = [
    ("GET", "/", None, 200, ROOT),
    ("GET", "/connectors", None, 200, []),
    ("POST", "/connectors", NEW, 201, {**INFO, "tasks": []}),
    ("GET", "/connectors?expand=info&expand=status", None, 200, {"made": {"info": INFO, "status": STATUS}}),
    ("GET", "/connectors?search=x&expand=status", None, 200, {"made": {"status": STATUS}}),
    ("GET", "/connectors/made", None, 200, INFO),
    ("GET", "/connectors/made/config", None, 200, {}),
    ("GET", "/connectors/made/status", None, 200, STATUS),
    ("GET", "/connectors/made/tasks", None, 200, [{"id": TASK_ID, "config": {}}]),
    ("GET", "/connectors/made/tasks/0/status", None, 200, {"id": int, **STATE}),
    ("GET", "/connectors/made/topics", None, 200, {"made": {"topics": [str]}}),
    ("PUT", "/connectors/made/config", {**CONFIG, "rate": "3"}, 200, INFO),
    ("POST", "/connectors/made/restart?includeTasks=false&onlyFailed=false", None, 204, None),
    ("POST", "/connectors/made/restart?includeTasks=true&onlyFailed=true", None, 202, STATUS),
    ("POST", "/connectors/made/tasks/0/restart", None, 204, None),
    ("PUT", "/connectors/made/pause", None, 202, None),
    ("PUT", "/connectors/made/resume", None, 202, None),
    ("PUT", "/connectors/made/stop", None, 204, None),
    ("GET", "/connectors/made/offsets", None, 200, {"offsets": []}),
    ("DELETE", "/connectors/made/offsets", None, 200, MESSAGE),
    ("GET", "/connector-plugins", None, 200, [PLUGIN]),
    ("PUT", "/connector-plugins/DatagenSource/config/validate", {"rate": "x"}, 200, VALIDATION),
    ("DELETE", "/connectors/made", None, 204, None),
]

CONSOLE: list[tuple[str, str, Any, int, Any]] = [
    ("GET", "/", None, 200, ROOT),
    ("GET", "/connector-plugins", None, 200, [PLUGIN]),
    ("PUT", "/connector-plugins/DatagenSource/config/validate", CONFIG, 200, VALIDATION),
    ("POST", "/connectors", NEW, 201, {**INFO, "tasks": []}),
    ("GET", "/connectors?expand=status&expand=info", None, 200, {"made": {"info": INFO, "status": STATUS}}),
    ("GET", "/connectors/made", None, 200, INFO),
    ("GET", "/connectors/made/config", None, 200, {}),
    ("GET", "/connectors/made/status", None, 200, STATUS),
    ("GET", "/connectors/made/topics", None, 200, {"made": {"topics": [str]}}),
    ("PUT", "/connectors/made/topics/reset", None, 202, None),
    ("PUT", "/connectors/made/config", {**CONFIG, "rate": "4"}, 200, INFO),
    ("POST", "/connectors/made/restart?includeTasks=true&onlyFailed=false", None, 202, STATUS),
    ("POST", "/connectors/made/tasks/0/restart", None, 204, None),
    ("PUT", "/connectors/made/pause", None, 202, None),
    ("PUT", "/connectors/made/resume", None, 202, None),
    ("PUT", "/connectors/made/stop", None, 204, None),
    ("DELETE", "/connectors/made", None, 204, None),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        yield running


@pytest.mark.parametrize("who", ["kcctl", "kafbat", "console"])
def test_each_call_is_answered_as_connect_does(
    who: str, broker: OttlaBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ottla.connect.herder.task_runner.EngineSupervisor", IdleEngine)
    calls = {"kcctl": KCCTL, "kafbat": KAFBAT, "console": CONSOLE}[who]
    topics = {f"{each}.storage.topic": f"{who}-{each}" for each in ("config", "offset", "status")}
    settings: Any = {"group.id": who, **topics}
    with RunningWorker(broker.bootstrap_servers, tmp_path, **settings) as worker:
        for method, path, body, status, shape in calls:
            found = send(worker.url, method, path, body)
            assert found[0] == status, (method, path, found)
            mistake = compared(found[1], shape, path)
            assert mistake is None, mistake
            if (method, status) == ("POST", 201) or path.endswith(("made/restart", "/resume", "made/config")):
                worker.wait_for("made", "RUNNING", "RUNNING")


def send(url: str, method: str, path: str, body: Any) -> tuple[int, Any]:
    """Send a request with the headers of these clients."""
    from urllib.error import HTTPError

    headers = {"accept": "application/json", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url + path, data, headers, method=method), timeout=60) as answer:
            content, status = answer.read(), answer.status
            kind = answer.headers.get("content-type")
    except HTTPError as error:
        with error:
            content, status, kind = error.read(), error.code, error.headers.get("content-type")
    assert not content or kind == "application/json", (path, kind)
    return status, json.loads(content) if content else None


def compared(value: Any, shape: Any, where: str) -> str | None:
    """Return where a value differs from the fields and types that a client reads."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{where}: {value!r} is not an object"
        found = [
            f"{where}: no {key}" if key not in value else compared(value[key], each, f"{where}.{key}")
            for key, each in shape.items()
        ]
    elif isinstance(shape, list):
        if not isinstance(value, list) or (not shape and value):
            return f"{where}: {value!r} is not a list, or not empty"
        found = [compared(each, shape[0], where) for each in value]
    elif shape is None:
        return None if value is None else f"{where}: {value!r} instead of no body"
    else:
        return None if isinstance(value, shape) else f"{where}: {value!r} is not {shape}"
    return next((each for each in found if each), None)
