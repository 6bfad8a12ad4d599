"""Keys of one listener: `listener.name.NAME.KEY` and `listener.name.NAME.MECHANISM.KEY`.

    listener.name.clients.ssl.client.auth=required
    listener.name.clients.plain.sasl.jaas.config=... required user_alice="secret";

Names of listeners and mechanisms are written in lower case. A listener takes a value from the first of these
that has it: its mechanism's own, its own, the broker's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NoReturn, TypeVar, cast

from ottla.common.config.declaration import Config, ConfigError, Key
from ottla.common.config.security_keys import MECHANISMS
from ottla.common.near_names import or_nearest

T = TypeVar("T")

PREFIX = "listener.name."


def listener_key(name: str, keys: Mapping[str, Key[Any]]) -> Key[Any] | None:
    """Return the key that `name` sets for a listener, under that whole name; None if it is no such name."""
    if not name.startswith(PREFIX):
        return None
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    mechanism, _, of_mechanism = rest.partition(".")
    if mechanism.upper() in MECHANISMS:
        rest = of_mechanism
    key = keys.get(rest)
    is_allowed = key is not None and (
        key.per_mechanism if mechanism.upper() in MECHANISMS else key.per_listener
    )
    if not listener or key is None or not is_allowed:
        _refuse(name, rest, key, keys)
    return _renamed(key, name)


def listener_of(name: str) -> str:
    """Return the name of the listener in the name of its key, in capitals."""
    return name.removeprefix(PREFIX).partition(".")[0].upper()


@cache
def _renamed(key: Key[T], name: str) -> Key[T]:
    return replace(key, name=name)


def _refuse(name: str, rest: str, key: Key[Any] | None, keys: Mapping[str, Key[Any]]) -> NoReturn:
    if key is None:
        known = [each.name for each in keys.values() if each.per_listener or each.per_mechanism]
        raise ConfigError(name, f"there is no listener key {rest!r}{or_nearest(rest, known)}")
    if key.per_mechanism:
        listener = listener_of(name).lower()
        raise ConfigError(
            name, f"is set for one mechanism, such as {PREFIX}{listener}.scram-sha-512.{key.name}"
        )
    raise ConfigError(name, f"{key.name} cannot be set for one listener; write {key.name}=...")


class ListenerConfig:
    """The configuration of one listener."""

    def __init__(self, config: Config, overrides: Mapping[str, Any], listener_name: str) -> None:
        self._config = config
        self._overrides = overrides
        self.name = listener_name
        self._prefix = f"{PREFIX}{listener_name.lower()}."

    def value(self, key: Key[T], mechanism: str | None = None) -> T:
        """Return the value of `key` for this listener, and for a mechanism of it."""
        found = self.own(key, mechanism)
        if found is None and mechanism is not None:
            found = self.own(key)
        return cast("T", getattr(self._config, key.attribute)) if found is None else found

    def own(self, key: Key[T], mechanism: str | None = None) -> T | None:
        """Return what is set for this listener itself, or for this mechanism of it; None if nothing is."""
        return cast("T | None", self._overrides.get(self.name_of(key, mechanism)))

    def name_of(self, key: Key[Any], mechanism: str | None = None) -> str:
        """Return the name under which `key` is set for this listener."""
        return self._prefix + (f"{mechanism.lower()}.{key.name}" if mechanism else key.name)
