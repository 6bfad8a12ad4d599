"""How log lines look: words for people, JSON for programs; one line per event either way.

    2026-11-15 20:14:05,123 WARNING ottla.slow: 127.0.0.1:52100: slow Produce v9 of client 'web': 1204 ms, ...
    {"time": "2026-11-15T20:14:05.123Z", "level": "warning", "logger": "ottla.slow", "message": "...",
     "api": "Produce", "client_id": "web", "total_ms": 1204, ...}

What a caller passes as `extra` are fields of their own in JSON. A traceback is several lines for people, and
one field for programs.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from ottla.common.log_limit import RepeatedLines

AUTO, TEXT, JSON = "auto", "text", "json"
FORMATS = (AUTO, TEXT, JSON)
LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


def set_up_logging(level: str, form: str = AUTO, fields: Mapping[str, object] | None = None) -> None:
    """Log to standard error: with `auto`, words on a terminal and JSON otherwise; JSON with `fields`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(fields or {}) if resolve(form) == JSON else TextFormatter(LINE))
    handler.addFilter(RepeatedLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def resolve(form: str) -> str:
    """Return `text` or `json`."""
    if form != AUTO:
        return form
    return TEXT if sys.stderr.isatty() else JSON


class TextFormatter(logging.Formatter):
    """Words; a message with line breaks (whatever a client has sent) stays on its line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the name is logging's
        """Return the line without the traceback."""
        return super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")


class JsonFormatter(logging.Formatter):
    """One JSON object per line. `fields` are in each of them."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        super().__init__()
        self._fields = dict(fields)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        said: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._fields,
        }
        said |= {key: value for key, value in vars(record).items() if key not in _USUAL}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str, ensure_ascii=False)
