"""Where a worker keeps the checkpoints of connectors, and what it lets their configs read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.client_options import ClientOptions
from ottla.connect.config.providers import resolve
from ottla.connect.config.validation import validate
from ottla.connect.errors import ConnectError
from ottla.connect.options import WorkerOptions, check_settings
from ottla.connect.plugins import Plugins


def options(storage: Path) -> WorkerOptions:
    return WorkerOptions(ClientOptions(bootstrap_servers=("127.0.0.1:9092",)), {}, storage=storage)


@pytest.mark.parametrize("name", ["../../etc", "/etc", "..", ".", "", "a/../../..", "a\0b"])
def test_no_name_of_a_connector_leads_out_of_the_storage(name: str, tmp_path: Path) -> None:
    folder = options(tmp_path).checkpoints_of(name)
    assert folder.resolve().parent == tmp_path.resolve() / "connect-cluster"


def test_usual_names_are_folders_of_their_own(tmp_path: Path) -> None:
    found = options(tmp_path)
    assert found.checkpoints_of("orders-to_s3.v1").name == "orders-to_s3.v1"
    assert found.checkpoints_of("a/b") != found.checkpoints_of("a%2Fb")


def test_long_names_are_folders_of_their_own(tmp_path: Path) -> None:
    found = options(tmp_path)
    folders = [found.checkpoints_of(each) for each in ("件" * 100, "件" * 101, "x" * 1000)]
    for each in folders:
        each.mkdir(parents=True)
    assert len(set(folders)) == 3


def test_providers_read_what_the_worker_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_PW", "pw")
    monkeypatch.setenv("AWS_KEY", "aws")
    for name in ("open", "closed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "p.properties").write_text("user=me\n")
    (tmp_path / "open" / "link").symlink_to(tmp_path / "closed" / "p.properties")
    opened, closed = tmp_path / "open", tmp_path / "closed"
    limits = {f"config.providers.{each}.param.allowed.paths": str(opened) for each in ("file", "directory")}
    limits["config.providers.env.param.allowlist.pattern"] = "CONNECT_.*"
    check_settings(limits)
    providers = WorkerOptions(ClientOptions(), {}, settings=limits).providers
    allowed = {"a": "${env::CONNECT_PW}", "b": f"${{file:{opened}/p.properties:user}}"}
    allowed["c"] = f"${{directory:{opened}:p.properties}}"
    assert resolve(allowed, providers) == {"a": "pw", "b": "me", "c": "user=me\n"}
    for refused in (
        "${env::AWS_KEY}",
        f"${{file:{closed}/p.properties:user}}",
        f"${{file:{opened}/../closed/p.properties:user}}",
        f"${{file:{opened}/link:user}}",
        f"${{directory:{closed}:p.properties}}",
        f"${{directory:{opened}:link}}",
    ):
        with pytest.raises(ConnectError):
            resolve({"a": refused}, providers)
        config = {"name": "c", "connector.class": "DatagenSource", "topic": refused}
        found = validate(Plugins.load([]), config, providers)
        assert "config provider" in found.results["topic"].errors[0]
    with pytest.raises(ConnectError, match="no regular expression"):
        check_settings({"config.providers.env.param.allowlist.pattern": "("})
