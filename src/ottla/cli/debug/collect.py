"""Collects the parts of a bundle. A part that cannot be collected becomes a line in problems.txt."""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import tarfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ottla import __version__
from ottla.cli.debug.redact import Redactor
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.protocol.errors import KafkaError

LOG_BYTES = 8 * 1024 * 1024
"""How much of the end of each log file is taken."""
METRICS_TIMEOUT_S = 10
METRICS_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class Bundle:
    """Files by name, with what each of them is; all of them without secrets."""

    redactor: Redactor = field(default_factory=Redactor)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, what: str, text: str) -> None:
        """Add a text."""
        self.files[name] = (what, self.redactor.text(text).encode(errors="backslashreplace"))

    def add_json(self, name: str, what: str, value: Any) -> None:
        """Add a JSON document."""
        text = json.dumps(self.redactor.document(value), indent=2, ensure_ascii=False, default=str)
        self.files[name] = (what, f"{text}\n".encode(errors="backslashreplace"))

    async def try_adding(self, name: str, what: str, ask: Callable[[], Awaitable[Any]]) -> None:
        """Add what a broker answers; its error is a problem of this part alone."""
        try:
            self.add_json(name, what, await ask())
        except (KafkaError, ClientError) as error:
            self.problems.append(f"{name}: {error or type(error).__name__}")

    def contents(self) -> str:
        """Return the list of contents."""
        lines = [f"{len(data):>10}  {name:<34} {what}" for name, (what, data) in sorted(self.files.items())]
        about = f"Ottla {__version__}: a debug bundle. {self.redactor.removed} secrets were left out."
        return "\n".join((about, "", "     bytes  file", *lines)) + "\n"

    def write(self, path: Path) -> None:
        """Write it as a .tar.gz that only its owner can read, in a folder of its own name."""
        if self.problems:
            self.add("problems.txt", "What could not be collected.", "\n".join(self.problems) + "\n")
        self.files["CONTENTS.txt"] = ("This list.", b"")
        self.files["CONTENTS.txt"] = ("This list.", self.contents().encode())
        folder = path.name.removesuffix(".tar.gz")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, (_, data) in sorted(self.files.items()):
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
                archive.addfile(entry, io.BytesIO(data))


def add_machine(bundle: Bundle) -> None:
    """Add the versions of everything, and this machine."""
    from importlib.metadata import distributions

    packages = sorted({(each.name, each.version) for each in distributions() if each.name})
    bundle.add_json(
        "versions.json",
        "Versions of Ottla, Python, the packages and the system.",
        {
            "ottla": __version__,
            "python": sys.version,
            "system": platform.platform(),
            "machine": platform.machine(),
            "packages": dict(packages),
        },
    )


async def add_cluster(bundle: Bundle, cluster: Cluster) -> None:
    """Add what the cluster says of itself: metadata, health, configs, groups."""
    from ottla.cli.cluster.view import cluster_as_json
    from ottla.client.admin.cluster_health import examine_cluster
    from ottla.client.admin.config_admin import ConfigAdmin, ConfigEntry
    from ottla.client.admin.groups import Groups

    def shown(entries: list[ConfigEntry]) -> dict[str, Any]:
        return {
            each.name: {
                "value": None if each.is_sensitive else each.value,
                "source": each.source.name.lower(),
            }
            for each in entries
        }

    async def metadata() -> Any:
        found = await examine_cluster(cluster)
        return cluster_as_json(found.info) | {"health": found.as_json()}

    async def topics() -> Any:
        names = sorted(await cluster.refresh(None))
        return {name: shown(await admin.topic_configs(name)) for name in names}

    async def groups() -> Any:
        known = Groups(cluster)
        return [
            {
                "group": asdict(await known.describe(each.group_id)),
                "offsets": _offsets(await known.committed(each.group_id)),
            }
            for each in await known.list()
        ]

    admin = ConfigAdmin(cluster)
    await bundle.try_adding("cluster.json", "Brokers, partitions, health.", metadata)
    await bundle.try_adding("topics.json", "The configs of every topic.", topics)
    await bundle.try_adding("groups.json", "Consumer groups: members and offsets.", groups)
    for node_id in sorted(cluster.brokers):

        async def configs(node_id: int = node_id) -> Any:
            return shown(await admin.broker_configs(node_id))

        await bundle.try_adding(f"broker-{node_id}.json", f"The configs of broker {node_id}.", configs)


def _offsets(committed: Any) -> dict[str, int]:
    return {str(partition): kept.offset for partition, kept in committed.items()}


def add_metrics(bundle: Bundle, number: int, url: str) -> None:
    """Add the metrics of a broker or a service."""
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=METRICS_TIMEOUT_S) as response:
            text = response.read(METRICS_BYTES).decode(errors="replace")
    except (OSError, ValueError, HTTPException) as error:
        bundle.problems.append(f"metrics of {url}: {error}")
        return
    bundle.add(f"metrics-{number}.txt", f"What {url} answers.", text)


def add_config_file(bundle: Bundle, path: Path) -> None:
    """Add a .properties file without its secrets; do this before the logs, whose values it knows."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        bundle.problems.append(f"{path}: {error.strerror}")
        return
    bundle.add(_free(bundle, f"config/{path.name}"), f"{path}", bundle.redactor.properties(text))


def add_log_file(bundle: Bundle, path: Path) -> None:
    """Add the end of a log file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, io.SEEK_END)
            file.seek(max(0, size - LOG_BYTES))
            data = file.read(LOG_BYTES)
    except OSError as error:
        bundle.problems.append(f"{path}: {error.strerror}")
        return
    if size > LOG_BYTES:
        data = data[data.find(b"\n") + 1 :]  # a part of a line could be a part of a secret
    part = f", its last {LOG_BYTES // 2**20} MiB" if size > LOG_BYTES else ""
    bundle.add(_free(bundle, f"logs/{path.name}"), f"{path}{part}", data.decode(errors="replace"))


def _free(bundle: Bundle, name: str) -> str:
    number, free = 1, name
    while free in bundle.files:
        number += 1
        free = f"{name}.{number}"
    return free
