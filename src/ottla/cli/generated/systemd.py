"""A sandboxed systemd unit for one broker."""

from __future__ import annotations

from collections.abc import Sequence

UNIT = """\
# Ottla as a service. As root:
#   ottla generate systemd -o /etc/systemd/system/ottla.service
#   systemctl daemon-reload && systemctl enable --now ottla
# The broker's data is in {state}. The program must be readable by all users (/opt, /usr), not in a home
# directory: those are hidden from it.

[Unit]
Description=Ottla, an event-streaming broker that speaks the Kafka protocol
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
ExecStart={command}
{user}
StateDirectory={name}
StateDirectoryMode=0750
Restart=on-failure
RestartSec=2
KillSignal=SIGTERM
TimeoutStartSec=infinity
TimeoutStopSec=120
LimitNOFILE=262144
OOMScoreAdjust=-500

NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0027

[Install]
WantedBy=multi-user.target
"""


def unit(program: str, name: str, user: str | None, arguments: Sequence[str]) -> str:
    """Return the unit file; without a `user`, systemd uses a dynamic one."""
    state = f"/var/lib/{name}"
    words = [program, "serve", "--data", state, "--log-format", "json", *arguments]
    return UNIT.format(
        command=" ".join(quoted(word) for word in words),
        name=name,
        state=state,
        user="DynamicUser=yes" if user is None else f"User={user}",
    )


def quoted(word: str) -> str:
    """Return a word of ExecStart: percent and dollar signs have a meaning for systemd."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if " " in text or '"' in text or not text else text
