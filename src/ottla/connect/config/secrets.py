"""Hide secrets in answers, and keep them when what was read is written back.

The value of a key that is secret is hidden as a whole; in other values, passwords in URLs and headers with
credentials are. References to providers are shown: they are no secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.connect.config.common_keys import CONNECTOR_KEYS, SINK_KEYS, SOURCE_KEYS
from ottla.connect.config.keys import HIDDEN, PASSWORD
from ottla.connect.config.providers import has_reference
from ottla.connect.errors import WrongConfig
from ottla.connect.plugins import Plugins
from ottla.connect.sdk import Connector

ALL_KEYS = {each.name: each for each in (*CONNECTOR_KEYS, *SOURCE_KEYS, *SINK_KEYS)}
SECRET_WORDS = ("password", "secret", "token", "sasl.jaas.config", "basic.auth.user.info", "ssl.keystore.key")
SERVER_WORDS = (
    *("url", "uri", "host", "server", "endpoint", "address", "port", "proxy"),
    *("arguments", "catalog", "driver"),
)


def is_secret(kind: type[Connector] | None, key: str) -> bool:
    """Return whether the value of a key must not be shown."""
    declared = {each.name: each for each in kind.keys}.get(key) if kind is not None else None
    if declared is not None:
        return declared.type == PASSWORD
    return key not in ALL_KEYS and any(word in key.lower() for word in SECRET_WORDS)


STARS = "****"
"""In place of a part of a value."""
# Names are looked through once: a long value must not stop the worker.
_PARTS = tuple(
    re.compile(each, re.IGNORECASE)
    for each in (
        r"(://[^/\s:@]*:)(?!\$\{)[^/\s@]+(?=@)",
        r"([?&;]password=)(?!\$\{)[^&;\s]+",
        r"((?:^|,)\s*+(?=[\w.-]*?(?:password|secret|token|credential|api-?key))[\w.-]++\s*+=)(?!\s*\$\{)[^,]+",
        r"((?:^|,)\s*+(?:(?:proxy-)?(?:authorization|cookie)|(?=[\w-]*?(?:api-?key|token|secret))[\w-]++)\s*+:)"
        r"(?!\s*\$\{)[^,]+",
    )
)


def without_parts(text: str) -> str:
    """Return a text without the passwords of its URLs, and without the credentials of its headers."""
    for each in _PARTS:
        text = each.sub(rf"\1{STARS}", text)
    return text


def _shown(kind: type[Connector] | None, key: str, value: str) -> str:
    if is_secret(kind, key):
        return HIDDEN if value and not has_reference(value) else value
    return without_parts(value)


def masked(plugins: Plugins, config: Mapping[str, str]) -> dict[str, str]:
    """Return a config for answers: secrets are hidden, references to providers are not."""
    try:
        kind = plugins.connector(config.get("connector.class"))
    except WrongConfig:
        kind = None
    return {key: _shown(kind, key, value) for key, value in config.items()}


def masked_by_names(config: Mapping[str, str]) -> dict[str, str]:
    """Return the config of a connector whose class is not known here, without what its keys call secret."""
    return {key: _shown(None, key, value) for key, value in config.items()}


def unmasked(new: Mapping[str, str], stored: Mapping[str, str] | None) -> dict[str, str]:
    """Return a new config whose hidden values are the stored ones: what was read may be written back.

    Raise WrongConfig if it names another server too: that server would receive a password that the writer of
    the config may not know.
    """
    known = stored or {}
    hidden = [
        key
        for key, value in new.items()
        if key in known and value != known[key] and value in (HIDDEN, without_parts(known[key]))
    ]
    found = {**new, **{key: known[key] for key in hidden}}
    moved = sorted(key for key in {*found, *known} if names_server(key) and found.get(key) != known.get(key))
    if hidden and moved:
        raise WrongConfig(hidden[0], new[hidden[0]], f"{moved[0]} has changed, so give the value again")
    return found


def names_server(key: str) -> bool:
    """Return whether the value of a key decides who receives the secrets of the config."""
    return key == "connector.class" or any(word in key.lower() for word in SERVER_WORDS)
