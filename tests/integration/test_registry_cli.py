"""`ottla registry` against a running registry, and as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.integration.registry_stage import RunningRegistry

from ottla.cli.main import run
from ottla.registry.server import RegistryServer
from ottla.testing.local_broker import OttlaBroker

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
ORDER_2 = ORDER.replace("]}", ',{"name":"note","type":"string","default":""}]}')
ORDER_3 = ORDER.replace("]}", ',{"name":"must","type":"string"}]}')


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        yield running


Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(registry: RunningRegistry, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Run `ottla registry ...` and return its exit code, output and talk."""

    def type_in(*words: str, url: str = registry.url) -> tuple[int, str, str]:
        code = run(["registry", *words, "--url", url])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return type_in


def test_a_schema_from_file_to_file(typed: Typed, tmp_path: Path, registry: RunningRegistry) -> None:
    for name, text in (("one", ORDER), ("two", ORDER_2), ("three", ORDER_3)):
        (tmp_path / f"{name}.avsc").write_text(text)
    code, out, err = typed("schema", "register", "cli-value", "--file", str(tmp_path / "one.avsc"))
    assert code == 0
    number = int(out)
    assert err == f"cli-value version 1 has id {number}\n"
    assert typed("schema", "get", str(number))[1].strip() == ORDER
    assert typed("compat", "check", "cli-value", "-f", str(tmp_path / "two.avsc"))[:2] == (0, "compatible\n")
    code, out, _ = typed("compat", "check", "cli-value", "-f", str(tmp_path / "three.avsc"))
    assert code == 3
    assert out.startswith("not compatible\n  {errorType:'READER_FIELD_MISSING_DEFAULT_VALUE'")
    code, _, err = typed("schema", "register", "cli-value", "-f", str(tmp_path / "three.avsc"))
    assert code == 1
    assert "(40901)" in err
    assert "ottla registry compat check" in err
    assert typed("schema", "register", "cli-value", "-f", str(tmp_path / "two.avsc"))[0] == 0
    described = typed("subject", "describe", "cli-value")
    assert described[1].splitlines()[0].split() == ["version", "id", "type", "state", "schema"]
    assert described[2] == "compatibility BACKWARD, mode READWRITE\n"
    as_json = json.loads(typed("subject", "describe", "cli-value", "--format", "json")[1])
    assert [each["version"] for each in as_json["versions"]] == [1, 2]
    assert "cli-value" in typed("subject", "list")[1].split()
    listed = json.loads(typed("schema", "list", "--latest", "--format", "json")[1])
    assert [each["version"] for each in listed if each["subject"] == "cli-value"] == [2]


def test_settings(typed: Typed) -> None:
    assert typed("config", "set", "cli-config", "--level", "full", "--set", "normalize=true")[0] == 0
    assert typed("config", "get", "cli-config")[1] == "normalize=True\ncompatibilityLevel=FULL\n"
    assert typed("config", "delete", "cli-config")[0] == 0
    assert typed("config", "set", "cli-config")[0] == 2
    assert typed("mode", "set", "READONLY", "cli-config")[1] == "mode=READONLY\n"
    assert json.loads(typed("mode", "get", "cli-config", "--format", "json")[1]) == {"mode": "READONLY"}
    assert typed("mode", "delete", "cli-config")[0] == 0


def test_deletes_ask_and_errors_are_words(typed: Typed, registry: RunningRegistry) -> None:
    registry.ask("POST", "/subjects/cli-gone/versions", {"schema": '"int"'})
    assert typed("subject", "delete", "cli-gone")[0] == 2, "nobody can be asked"
    assert typed("subject", "delete", "cli-gone", "--dry-run")[2] == "would delete 1 version: 1\n"
    assert typed("subject", "delete", "cli-gone", "--yes")[2] == "deleted 1 version: 1\n"
    code, _, err = typed("subject", "delete", "cli-gone", "--yes")
    assert code == 1
    assert "--permanent" in err
    assert typed("subject", "delete", "cli-gone", "--yes", "--permanent")[0] == 0
    code, _, err = typed("subject", "describe", "nowhere")
    assert (code, err.splitlines()[0]) == (1, "error: Subject 'nowhere' not found. (40401)")
    code, _, err = typed("subject", "list", url="http://127.0.0.1:1")
    assert code == 1
    assert "ottla registry serve" in err


def test_export_and_import_keep_ids_and_versions(
    typed: Typed, tmp_path: Path, registry: RunningRegistry, broker: OttlaBroker
) -> None:
    registry.ask("POST", "/subjects/cli-export/versions", {"schema": '"int"'})
    registry.ask("PUT", "/config/cli-export", {"compatibility": "NONE"})
    registry.ask("POST", "/subjects/cli-export/versions", {"schema": '"string"'})
    file = str(tmp_path / "schemas.jsonl")
    assert typed("export", file)[0] == 0
    with RunningRegistry(broker.bootstrap_servers, topic="_schemas_copy") as copy:
        code, out, _ = typed("import", file, "--format", "json", url=copy.url)
        assert code == 0
        assert json.loads(out)["schemas"] > 2
        for path in ("/subjects", "/config/cli-export", "/mode"):
            assert copy.ask("GET", path).body == registry.ask("GET", path).body
        for each in registry.ask("GET", "/schemas").body:
            other = copy.ask("GET", f"/subjects/{each['subject']}/versions/{each['version']}").body
            assert {**other, "ts": 0} == {**each, "ts": 0}


def test_the_process_says_ready_and_ends_cleanly(broker: OttlaBroker) -> None:
    words = ["registry", "serve", "--bootstrap", broker.bootstrap_servers, "--listen", "127.0.0.1:0"]
    process: Any = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *words], stdout=subprocess.PIPE, text=True, env=os.environ.copy()
    )
    with process:
        try:
            line = process.stdout.readline()
            assert line.startswith("ready: schema registry at http://127.0.0.1:")
            with urlopen(line.split()[-1] + "/subjects", timeout=20) as response:
                assert response.status == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_a_registry_without_a_broker_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["registry", "serve", "--bootstrap", "127.0.0.1:1", "--listen", "127.0.0.1:0"]) == 1
    assert "no broker at 127.0.0.1:1" in capsys.readouterr().err


def test_serve_takes_the_claim_with_the_user_name_by_the_brokers_key(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[RegistryServer] = []

    def keep(name: str, address: object, make: Callable[[], RegistryServer], **more: object) -> int:
        made.append(make())
        return 0

    monkeypatch.setattr("ottla.cli.registry.command.run_http_service", keep)
    for words in ([], ["--auth-claim", "login"]):
        assert run(["registry", "serve", *words]) == 0
    assert [each.options.user_claim for each in made] == ["sub", "login"]
