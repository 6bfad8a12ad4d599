"""How a console process is run."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from ottla.client.client_options import ClientOptions
from ottla.console.access.oidc import OidcOptions
from ottla.console.messages.masking import Mask
from ottla.http.limits import HttpLimits
from ottla.http.origins import is_loopback

NO_LOGIN, BROKER_LOGIN = "none", "broker"
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """A cluster and the services beside it; None: there is none."""

    name: str
    client: ClientOptions
    registry_url: str | None = None
    connect_url: str | None = None


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """How a console process is run."""

    clusters: tuple[ClusterOptions, ...]
    """The first one is shown at the start."""
    host: str = "127.0.0.1"
    port: int = 8080
    login: str = NO_LOGIN
    oidc: OidcOptions | None = None
    data: Path | None = None
    """Where samples and the audit log are kept; None: in memory, and the audit log in the process's log."""
    pipelines: Path | None = None
    """A folder of pipelines' checkpoints, whose progress is shown."""
    shows_messages: bool = True
    is_read_only: bool = False
    masks: tuple[Mask, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    """Names, beside those of this machine, under which browsers may address the console."""
    session_timeout_s: float = 8 * 3600.0
    idle_timeout_s: float = 3600.0
    sample_every_s: float = 5.0
    tls: ssl.SSLContext | None = None
    limits: HttpLimits = field(
        default_factory=lambda: HttpLimits(max_body_bytes=12 * MIB, graceful_stop_s=1.0)
    )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)
