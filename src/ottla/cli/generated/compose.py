"""A Docker Compose file: a ZooKeeper and brokers on one machine.

The image for the brokers is built from a package that pip finds, from a wheel beside the file, or from a
source directory, such as that of the running `ottla`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ottla
from ottla.cli.generated.yaml_text import to_yaml
from ottla.common.config.metrics_keys import METRICS_PORT

ZOOKEEPER_IMAGE = "zookeeper:3.9"
PYTHON_IMAGE = "python:3.12-slim"
IMAGE = "ottla:local"
INSIDE_PORT = 9092
MAX_REPLICAS = 3
SOURCE_FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
SOURCE_FOLDERS = ("src", "tools")
COMMENT = """\
{brokers} Ottla brokers and a ZooKeeper. It needs Docker with Compose 2.17 or newer,
and the images {zookeeper} and {python} from a registry.
Ottla in it: {package}
(A wheel of your own: put it beside this file and say  ottla generate compose --package ./NAME.whl)

  docker compose up --build --wait
  ottla topic list -b localhost:{first}

Clients on this machine use localhost:{first} and so on, containers use broker-1:9092.
Metrics are at http://localhost:{metrics}/metrics and the ports after it."""

DOCKERFILE = """\
FROM {python}
{copy}RUN pip install --no-cache-dir '{package}'
RUN useradd --create-home ottla && mkdir /data && chown ottla /data
USER ottla
VOLUME /data
ENTRYPOINT ["ottla"]
"""

READY = "import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/readyz', timeout=3)"


def compose(brokers: int, package: str, first_port: int) -> str:
    """Return the file; outside of the containers, brokers use `first_port` and the ports after it."""
    services: dict[str, Any] = {"zookeeper": _zookeeper()}
    for number in range(1, brokers + 1):
        services[f"broker-{number}"] = _broker(number, brokers, package, first_port + number - 1)
    volumes: dict[str, dict[str, str]] = {
        name: {} for name in ("zookeeper-data", *(f"broker-{n}-data" for n in range(1, brokers + 1)))
    }
    comment = COMMENT.format(
        brokers=brokers,
        zookeeper=ZOOKEEPER_IMAGE,
        python=PYTHON_IMAGE,
        package=package,
        first=first_port,
        metrics=METRICS_PORT,
    )
    return to_yaml({"name": "ottla", "services": services, "volumes": volumes}, comment)


def _zookeeper() -> dict[str, Any]:
    return {
        "image": ZOOKEEPER_IMAGE,
        "restart": "unless-stopped",
        "volumes": ["zookeeper-data:/data"],
        "healthcheck": {
            "test": ["CMD", "zkServer.sh", "status"],
            "interval": "5s",
            "timeout": "15s",
            "retries": 12,
        },
    }


def _broker(number: int, brokers: int, package: str, port: int) -> dict[str, Any]:
    replicas = str(min(brokers, MAX_REPLICAS))
    settings = {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "min.insync.replicas": "2" if brokers >= MAX_REPLICAS else "1",
        "transaction.state.log.min.isr": "2" if brokers >= MAX_REPLICAS else "1",
    }
    command = ["serve", "--node-id", str(number), "--data", "/data/ottla", "--zookeeper", "zookeeper:2181"]
    command += ["--listen", f"0.0.0.0:{INSIDE_PORT}", "--listen", f"0.0.0.0:{port}"]
    command += ["--advertise", f"broker-{number}:{INSIDE_PORT}", "--advertise", f"localhost:{port}"]
    command += ["--metrics", f"0.0.0.0:{METRICS_PORT}", "--log-format", "json"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    # Only the first service builds the image: two builds of one name at a time fail in some Docker versions.
    context = package if _is_source(Path(package)) else "."
    made = {"context": context, "dockerfile_inline": _dockerfile(package)}
    build = {"build": made} if number == 1 else {}
    return {
        **build,
        "image": IMAGE,
        "restart": "unless-stopped",
        "stop_grace_period": "2m",
        "depends_on": {"zookeeper": {"condition": "service_healthy"}},
        "command": command,
        "ports": [f"{port}:{port}", f"{METRICS_PORT + number - 1}:{METRICS_PORT}"],
        "volumes": [f"broker-{number}-data:/data"],
        "healthcheck": {
            "test": ["CMD", "python", "-c", READY.format(port=METRICS_PORT)],
            "interval": "5s",
            "timeout": "5s",
            "retries": 12,
            "start_period": "10s",
        },
    }


def own_source() -> str | None:
    """Return the directory of the running program, if that is a source tree."""
    folder = Path(ottla.__file__).resolve().parents[2]
    return str(folder) if _is_source(folder) else None


def _is_source(folder: Path) -> bool:
    return all((folder / name).exists() for name in (*SOURCE_FILES, *SOURCE_FOLDERS))


def _dockerfile(package: str) -> str:
    """Return the Dockerfile; packages that pip cannot find are copied into the image."""
    if _is_source(Path(package)):
        copy = f"COPY {' '.join(SOURCE_FILES)} /source/\n"
        copy += "".join(f"COPY {folder} /source/{folder}\n" for folder in SOURCE_FOLDERS)
        return DOCKERFILE.format(python=PYTHON_IMAGE, copy=copy, package="/source[zookeeper]")
    if package.endswith(".whl"):
        name = package.removeprefix("./").rpartition("/")[2]
        copy = f"COPY {package} /tmp/{name}\n"
        return DOCKERFILE.format(python=PYTHON_IMAGE, copy=copy, package=f"/tmp/{name}[zookeeper]")
    return DOCKERFILE.format(python=PYTHON_IMAGE, copy="", package=package)
