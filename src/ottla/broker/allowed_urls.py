"""Read what an identity provider publishes: from a file or a URL, and only from one that is allowed.

A configuration that could name any URL would read files and ask internal servers (CVE-2025-27817).
"""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ottla.common.config.declaration import ConfigError

ALLOWED_KEY = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
MAX_BYTES = 1 << 20
TIMEOUT_S = 10.0


def check_url(key: str, url: str, allowed: tuple[str, ...]) -> None:
    """Raise ConfigError if a URL may not be read."""
    if urlsplit(url).scheme not in ("file", "http", "https"):
        raise ConfigError(key, f"{url!r} is not a file:// or https:// URL")
    if url not in allowed:
        raise ConfigError(key, f"{url} is not allowed; allow it with {ALLOWED_KEY}={url}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would lead to a URL that is not in the list of allowed ones."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def read_url(url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
    """Return what is at a URL, after sending `body` if there is one; OSError or ValueError if it fails."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        data = Path(unquote(parts.path)).read_bytes()
    else:
        opener = urllib.request.build_opener(_NoRedirects())
        request = urllib.request.Request(url, body, dict(headers or {}))
        with opener.open(request, timeout=TIMEOUT_S) as response:
            data = response.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES} bytes")
    return data
