"""The options of a worker, by Connect's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from ottla.client.client_options import ClientOptions
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.producer.options import ProducerOptions
from ottla.common.config.options import Options
from ottla.connect.config.providers import ENV_PATTERN, PATHS, Providers
from ottla.connect.engine.supervisor import EngineOptions
from ottla.connect.errors import ConnectError

CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
DEFAULT_CONVERTERS = {
    "key.converter": CONVERTER,
    "key.converter.schemas.enable": "false",
    "value.converter": CONVERTER,
    "value.converter.schemas.enable": "false",
}
WORKER_KEYS = {
    "group.id": "the group of workers",
    "config.storage.topic": "the topic of the configs",
    "offset.storage.topic": "the topic of the offsets of sources",
    "status.storage.topic": "the topic of the states of connectors and tasks",
    "session.timeout.ms": "after this time without a heartbeat, a worker's tasks move to other workers",
    "rebalance.timeout.ms": "time that workers have to stop their tasks in a rebalance",
    "heartbeat.interval.ms": "time between heartbeats",
    "plugin.path": "Python files, folders or modules with connectors, comma-separated",
    "rest.advertised.host.name": "the host name that other workers connect to",
    "rest.advertised.port": "the port that other workers connect to",
    "task.restart.max": "maximum restarts of a task in a row after transient failures",
    "topic.tracking.enable": "record which topics each connector uses",
    PATHS.format("file"): "paths that `${file:...}` may read, comma-separated; default: all",
    PATHS.format("directory"): "paths that `${directory:...}` may read, comma-separated; default: all",
    ENV_PATTERN: "a regular expression of the variables that `${env::...}` may read; default: all",
}
MAX_FOLDER_NAME = 200
"""File systems have 255 bytes; a letter that is not ASCII takes six or more of them here."""
ROLES = ("producer", "consumer", "admin")
"""`ROLE.NAME` is an option of the clients of connectors, over that of the worker's own clients."""


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker is run."""

    client: ClientOptions
    client_config: Mapping[str, str]
    """The same for the format `ottla`: `kafka.bootstrap.servers` and the rest."""
    host: str = "127.0.0.1"
    port: int = 8083
    storage: Path = Path("ottla-connect")
    """The checkpoints of tasks; all workers of a group must see the same folder."""
    engine: EngineOptions = field(default_factory=EngineOptions)
    settings: Mapping[str, str] = field(default_factory=dict)
    """Keys of WORKER_KEYS and converters."""

    def setting(self, key: str, default: str) -> str:
        """Return a worker setting."""
        return self.settings.get(key, default)

    def number(self, key: str, default: int) -> int:
        """Return a worker setting that is a number."""
        given = self.settings.get(key)
        if given is None:
            return default
        if not given.strip().isdecimal():
            raise ConnectError(f"{key}: {given!r} is not a number")
        return int(given)

    def client_config_of(self, role: str) -> dict[str, str]:
        """Return how a connector's clients reach the brokers: producer, consumer or admin."""
        prefix = f"{role}."
        own = {
            f"kafka.{key[len(prefix) :]}": value
            for key, value in self.settings.items()
            if key.startswith(prefix)
        }
        return {**self.client_config, **own}

    @property
    def admin_client(self) -> ClientOptions | None:
        """How topics of connectors are created, if not by the worker's own connections."""
        prefix = "admin."
        own = {key[len(prefix) :]: value for key, value in self.settings.items() if key.startswith(prefix)}
        if not own:
            return None
        config = {key.removeprefix("kafka."): value for key, value in self.client_config.items()}
        return ClientOptions.of(**{**config, **own})

    @property
    def group_id(self) -> str:
        """The group of workers."""
        return self.setting("group.id", "connect-cluster")

    @cached_property
    def providers(self) -> Providers:
        """What references in configs may read."""
        return Providers.of(self.settings)

    def checkpoints_of(self, connector: str) -> Path:
        """Return the folder of a connector's checkpoints: a name such as `../..` stays within `storage`."""
        encoded = quote(connector, safe="")
        name = "%2E" + encoded[1:] if encoded.startswith(".") else encoded or "%00"
        if len(name) > MAX_FOLDER_NAME:
            name = f"{name[: MAX_FOLDER_NAME - 65]}-{sha256(connector.encode()).hexdigest()}"
        return self.storage.resolve() / self.group_id / name

    @property
    def converters(self) -> dict[str, str]:
        """The worker's converters, for connectors that name none."""
        found = {key: value for key, value in self.settings.items() if ".converter" in key}
        for which in ("key", "value"):
            if f"{which}.converter" not in found:
                found |= {key: value for key, value in DEFAULT_CONVERTERS.items() if key.startswith(which)}
        return found


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise ConnectError for a setting that there is not."""
    from ottla.common.near_names import unknown

    Providers.of(settings)
    for key in settings:
        role, _, rest = key.partition(".")
        if key in WORKER_KEYS or key.startswith(("key.converter", "value.converter", "header.converter")):
            continue
        if role not in ROLES or not is_client_key(rest, role):
            raise ConnectError(unknown("worker setting", key, list(WORKER_KEYS)))


def is_client_key(key: str, role: str = "") -> bool:
    """Return whether a name is an option of clients: `security.protocol`, or of a producer or consumer."""
    kinds: dict[str, type[Options]] = {"producer": ProducerOptions, "consumer": ConsumerOptions}
    name, known = key.replace(".", "_"), kinds.get(role, ClientOptions).declared()
    return name in known or any(name in each.aliases for each in known.values())


def split_settings(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of the worker's clients, and the other settings, of a worker's properties."""
    clients = {key: value for key, value in given.items() if key not in WORKER_KEYS and is_client_key(key)}
    return clients, {key: value for key, value in given.items() if key not in clients}
