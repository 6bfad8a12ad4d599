"""The file of `ottla generate compose`, as it is, in containers: built, started, and used from both sides.

It needs podman and podman-compose 1.1 or newer (`apt-get install podman runc netavark aardvark-dns`,
`pip install podman-compose`), and root. No registry is asked: the two images are made of programs of this
machine. Podman leaves it to systemd to check on health; where there is none, this test does it.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tests.integration.scraping import get_json

BROKERS = (1, 2, 3)
HEALTHY_WITHIN_S = 120
PORT = 19_092
METRICS_PORT = 9_644

pytestmark = [
    pytest.mark.skipif(
        shutil.which("podman") is None or shutil.which("podman-compose") is None,
        reason="podman and podman-compose are not installed",
    ),
    pytest.mark.skipif(os.getuid() != 0, reason="rootless containers are not tried here"),
    pytest.mark.timeout(600),
]

Run = Callable[..., str]


def settings_of_podman() -> str:
    """Return a containers.conf that asks for no more than this machine allows."""
    limits = {
        name: min(resource.getrlimit(limit)[1], 20_000)
        for name, limit in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))
    }
    ulimits = ", ".join(f'"{name}={most}:{most}"' for name, most in limits.items())
    lines = ["[containers]", f"default_ulimits = [{ulimits}]", "[network]", 'network_backend = "netavark"']
    if shutil.which("runc"):  # crun refuses machines that have both kinds of cgroups
        lines += ["[engine]", 'runtime = "runc"']
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the Compose file, for this source tree."""
    from tests.interop.container_images import make_images

    made = tmp_path_factory.mktemp("compose")
    (made / "containers.conf").write_text(settings_of_podman())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(made / "containers.conf"))
        make_images()
    generate = ["generate", "compose", "-o", str(made / "compose.yaml")]
    subprocess.run([sys.executable, "-m", "ottla.cli", *generate], check=True, timeout=60)
    return made


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    """Run a program in the folder, and return what it says."""
    environment = {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}

    def run_it(*command: str, text: str = "") -> str:
        done = subprocess.run(
            command, cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run_it


@pytest.fixture(scope="module")
def containers(run: Run, folder: Path) -> Iterator[list[str]]:
    """Everything started and healthy; the names of the containers."""
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    names = [f"ottla_{each}_1" for each in services]
    try:
        run("podman-compose", "up", "--build", "-d")
        for name in names:
            until_healthy(run, name)
        yield names
    finally:
        run("podman-compose", "down", "--volumes", "--timeout", "10")


def until_healthy(run: Run, name: str) -> None:
    deadline = time.monotonic() + HEALTHY_WITHIN_S
    while True:
        try:
            run("podman", "healthcheck", "run", name)
            return
        except AssertionError:
            if time.monotonic() > deadline:
                raise AssertionError(run("podman", "logs", "--tail", "20", name)) from None
            time.sleep(1)


def ottla(run: Run, *words: str, text: str = "") -> str:
    return run(sys.executable, "-m", "ottla.cli", *words, "-b", f"localhost:{PORT}", text=text)


def test_clients_outside_and_inside_of_the_containers_use_the_same_cluster(
    containers: list[str], run: Run
) -> None:
    assert len(containers) == len(BROKERS) + 1
    ottla(run, "topic", "create", "orders", "--partitions", "6", "--set", "min.insync.replicas=2")
    ottla(run, "produce", "orders", text="from outside\n")
    inside = ("podman", "exec", "-i", "ottla_broker-2_1", "ottla")
    run(*inside, "produce", "orders", "-b", "broker-3:9092", text="from inside\n")
    read = ("consume", "orders", "--from-beginning", "-e", "--format", "%v\n")
    expected = ["from inside", "from outside"]
    assert sorted(ottla(run, *read).splitlines()) == expected
    assert sorted(run(*inside, *read, "-b", "broker-1:9092").splitlines()) == expected


def test_every_broker_tells_that_it_is_ready(containers: list[str]) -> None:
    for number in BROKERS:
        status, said = get_json(f"localhost:{METRICS_PORT + number - 1}", "/readyz")
        assert (status, said["ready"]) == (200, True)


def test_a_container_that_is_stopped_and_started_has_its_data(containers: list[str], run: Run) -> None:
    ottla(run, "topic", "create", "kept", "--replication-factor", "1")
    ottla(run, "produce", "kept", text="one\n")
    for each in ("ottla_broker-1_1", "ottla_broker-2_1", "ottla_broker-3_1"):
        run("podman", "stop", "--time", "60", each)
        run("podman", "start", each)
        until_healthy(run, each)
    assert ottla(run, "consume", "kept", "--from-beginning", "-e", "--format", "%v\n") == "one\n"
