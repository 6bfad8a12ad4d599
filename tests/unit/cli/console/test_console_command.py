from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.console import command
from ottla.cli.topic.command import topic
from ottla.console.server import ConsoleServer

PROFILES = """
[one]
bootstrap.servers = "127.0.0.1:1"
schema.registry.url = "http://127.0.0.1:2"

[two]
bootstrap.servers = "127.0.0.1:3"
connect.url = "http://127.0.0.1:4"
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    file = tmp_path / "profiles.toml"
    file.write_text(PROFILES)
    monkeypatch.setenv("OTTLA_PROFILES", str(file))
    served: list[object] = []

    def keep(what: str, where: object, make: Callable[[], ConsoleServer]) -> int:
        served.append(make().options)
        return 0

    monkeypatch.setattr(command, "run_http_service", keep)

    def call(*arguments: str) -> object:
        result = CliRunner().invoke(command.console, ["serve", *arguments], standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        return served[-1]

    return call


def test_clusters_come_from_profiles(run: object) -> None:
    options = run("--cluster", "all")  # type: ignore[operator]
    found = [(each.name, each.registry_url, each.connect_url) for each in options.clusters]
    assert found == [("one", "http://127.0.0.1:2", None), ("two", None, "http://127.0.0.1:4")]
    (alone,) = run("--profile", "one").clusters  # type: ignore[operator]
    assert (alone.name, alone.registry_url) == ("one", "http://127.0.0.1:2")


def test_other_machines_need_a_login(run: object) -> None:
    with pytest.raises(Exception, match="--login broker"):
        run("--listen", "0.0.0.0:8080")  # type: ignore[operator]
    options = run("--listen", "0.0.0.0:8080", "--login", "broker", "--mask", "orders:$.card")  # type: ignore[operator]
    assert options.login == "broker"
    assert options.masks[0].topics == "orders"
    for wrong, says in (
        (("--mask", "orders"), "TOPIC:WHAT"),
        (("--listen", "here"), "HOST:PORT"),
        (("--cluster", "three"), "no profile 'three'"),
        (("--login", "oidc"), "--oidc-issuer"),
        (("--cert", "/none.pem"), "--cert"),
    ):
        with pytest.raises(Exception, match=says):
            run(*wrong)  # type: ignore[operator]


def test_other_commands_accept_a_profile_with_services(run: object) -> None:
    result = CliRunner().invoke(topic, ["list", "--profile", "one", "-X", "default.api.timeout.ms=1"])
    assert "unknown" not in str(result.exception or "") + result.output
