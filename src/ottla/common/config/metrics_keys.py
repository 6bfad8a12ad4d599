"""Broker keys of what can be seen from outside: metrics and the log of slow requests. All are Ottla's."""

from __future__ import annotations

from ottla.common.config.declaration import Config, ConfigError, Key, Update
from ottla.common.config.types import INT, LONG, STRING, Check, at_least, between
from ottla.common.listeners import Listener

CLUSTER_WIDE = Update.CLUSTER_WIDE

METRICS_PORT = 9644
OFF, AUTO = "off", "auto"
LOOPBACK = "127.0.0.1"
_LOOPBACK = frozenset({LOOPBACK, "::1", "localhost"})


def _is_place(text: str) -> bool:
    try:
        metrics_place(text, "")
    except ValueError:
        return False
    return True


class MetricsKeys(Config):
    """Metrics over HTTP, how much of it there may be, and what counts as slow."""

    ottla_metrics_listen: Key[str | None] = Key(
        "ottla.metrics.listen",
        STRING,
        None,
        "Where `/metrics`, `/healthz` and `/readyz` are served: `HOST:PORT`, or `off`. `auto`, as `ottla "
        f"serve` has it, is port {METRICS_PORT} of the host of the first listener, or of loopback if that "
        "listener is not PLAINTEXT or there is an authorizer: the pages ask for no login, and have names of "
        "topics and groups. Nothing is served if another program has that port. `auto:PORT` is the same for "
        "another port. If unset: off.",
        check=Check("HOST:PORT, auto, auto:PORT or off", _is_place),
    )
    ottla_metrics_max_topics = Key(
        "ottla.metrics.max.topics",
        INT,
        1_000,
        "How many topics have metrics of their own; `ottla_metrics_left_out` says how many have not.",
        check=at_least(0),
        update=CLUSTER_WIDE,
    )
    ottla_metrics_max_partitions = Key(
        "ottla.metrics.max.partitions",
        INT,
        5_000,
        "How many partitions have metrics of their own, and how many partitions of all groups together.",
        check=at_least(0),
        update=CLUSTER_WIDE,
    )
    ottla_metrics_max_groups = Key(
        "ottla.metrics.max.groups",
        INT,
        500,
        "How many consumer groups have metrics of their own.",
        check=at_least(0),
        update=CLUSTER_WIDE,
    )
    ottla_disk_free_warning_percent = Key(
        "ottla.disk.free.warning.percent",
        INT,
        10,
        "With less free disk space than this, `ottla cluster health` warns, long before the disk is full.",
        check=between(0, 100),
        update=CLUSTER_WIDE,
    )
    ottla_slow_request_ms = Key(
        "ottla.slow.request.ms",
        LONG,
        1_000,
        "A request that takes longer is written to the log, with who sent it; a negative number: none is. "
        "What clients ask to wait for (new records, the other members of a group) does not count.",
        update=CLUSTER_WIDE,
    )


def automatic_host(first: Listener, *, has_authorizer: bool) -> str:
    """Return the host of `auto`: that of the first listener only if every client may see all names anyway."""
    is_open = first.security_protocol == "PLAINTEXT" and not has_authorizer
    return first.host if is_open or first.host in _LOOPBACK else LOOPBACK


def metrics_place(text: str, automatic: str) -> tuple[str, int, bool] | None:
    """Return host, port, and whether it must be that port, of `ottla.metrics.listen`; None if it is off.

    `automatic` is the host of `auto`. ValueError if the text is none of the forms.
    """
    word = text.strip()
    if word == OFF:
        return None
    if word == AUTO:
        return automatic, METRICS_PORT, False
    host, colon, port = word.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535 or "/" in host:
        raise ValueError(f"{text!r} is not HOST:PORT")
    if host == AUTO:
        return automatic, int(port), False
    return host.strip("[]"), int(port), True


def check_metrics(config: MetricsKeys, listeners: tuple[Listener, ...]) -> None:
    """Refuse the port of a listener: it speaks Kafka's protocol, not HTTP."""
    place = metrics_place(config.ottla_metrics_listen or OFF, "")
    if place is not None and place[2] and place[1] and place[1] in {each.port for each in listeners}:
        raise ConfigError("ottla.metrics.listen", f"port {place[1]} is that of a listener; choose another")
