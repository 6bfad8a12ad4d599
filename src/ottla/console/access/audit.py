"""A line for every change: who, what, where, and how it ended."""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from pathlib import Path
from typing import IO, Any

from ottla.common.clock import Clock
from ottla.connect.config.secrets import without_parts

log = logging.getLogger("ottla.console.audit")

KEPT = 2_000
SECRET_FIELDS = ("password", "secret", "token", "hmac", "_csrf", "value", "key", "jaas", "user.info", "more")
"""`more`: settings that the form of a connector does not list."""
MAX_FIELD = 200


class AuditLog:
    """Keeps the newest changes in memory, and all of them in a file, if there is one."""

    def __init__(self, clock: Clock, file: Path | None = None) -> None:
        self._clock = clock
        self._lines: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._file: IO[str] | None = None
        if file is not None:
            if file.exists():
                self._read(file)
            self._file = os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a")

    def _read(self, file: Path) -> None:
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines()[-KEPT:]:
            try:
                found = json.loads(line)
            except ValueError:
                continue  # the last line of a process that was killed
            if isinstance(found, dict):
                self._lines.append(found)

    def add(
        self,
        *,
        user: str,
        client: str,
        cluster: str,
        action: str,
        target: str,
        fields: dict[str, Any],
        error: str | None,
        shows_value: bool = False,
    ) -> None:
        """Keep a change; its field `value` only if that is asked for, and its name is not a secret's."""
        line = {
            "at": self._clock.wall_ms(),
            "user": user,
            "client": client,
            "cluster": cluster,
            "action": action,
            "target": target,
            "fields": _harmless(fields, shows_value and not _is_secret(str(fields.get("name", "")))),
            "error": error,
        }
        self._lines.append(line)
        text = json.dumps(line, ensure_ascii=False)
        log.info("%s", text)
        if self._file is not None:
            self._file.write(text + "\n")
            self._file.flush()

    def lines(self) -> list[dict[str, Any]]:
        """Return the kept changes, the newest first."""
        return list(reversed(self._lines))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _harmless(fields: dict[str, Any], shows_value: bool = False) -> dict[str, Any]:
    """Return the fields without secrets and without the content of messages."""
    found: dict[str, Any] = {}
    for name, value in ((str(each), value) for each, value in fields.items()):
        if name.startswith("_"):
            continue
        is_shown = name.endswith("_format") or (shows_value and name == "value")
        is_secret = _is_secret(name) and not is_shown
        if isinstance(value, dict) and not is_secret:
            value = _harmless(value)
        text = without_parts(str(value))
        found[name] = "***" if is_secret else text if len(text) <= MAX_FIELD else text[:MAX_FIELD] + "…"
    return found


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in SECRET_FIELDS)
