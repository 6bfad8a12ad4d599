"""The configuration in force on a running broker, and the parts that follow its changes.

Problem: a part of the broker that copies a dynamic value when it is built misses every later change, and
code that pushes changes to each part misses the parts that are not built yet: a value that is altered while
a broker starts is then lost on that broker.

Solution: each part subscribes to the keys that it uses, once, when it is built. The subscriber is called at
once with the value in force, and again whenever it changes; when the part was built no longer matters. Parts
that read a key for each request keep no copy and need no subscription: they read `current`.

    live = LiveConfig(BrokerConfig(raw))
    live.subscribe(BrokerConfig.ottla_slow_request_ms, slow_requests.set_limit)
    live.subscribe_to((BrokerConfig.max_connections, BrokerConfig.max_connections_per_ip), change_limits)
    live.update(dynamic, dynamic_default)

tests/integration/test_dynamic_keys.py shows the effect of each key that is declared dynamic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError, Key, Update

T = TypeVar("T")
Subscriber = Callable[[BrokerConfig], None]

logger = logging.getLogger(__name__)

DYNAMIC_KEYS: tuple[Key[Any], ...] = tuple(
    key for key in BrokerConfig.KEYS.values() if key.update is not Update.READ_ONLY
)
"""Every key that can change while a broker runs."""


@dataclass(frozen=True, slots=True, eq=False)
class _Subscription:
    attributes: tuple[str, ...]
    subscriber: Subscriber
    of_listeners: bool = False
    """Whether a listener can have a value of its own for one of the keys."""

    def concerns(self, old: BrokerConfig, new: BrokerConfig) -> bool:
        if self.of_listeners and old.overrides != new.overrides:
            return True
        return any(getattr(old, name) != getattr(new, name) for name in self.attributes)


class LiveConfig:
    """A broker's configuration, replaced as a whole by `update`; `current` never changes in place."""

    def __init__(self, config: BrokerConfig) -> None:
        self.current = config
        self._subscriptions: list[_Subscription] = []

    def subscribe(self, key: Key[T], subscriber: Callable[[T], None]) -> None:
        """Call `subscriber` with the value of `key` now, and again whenever it changes."""
        self.subscribe_to((key,), lambda config: subscriber(getattr(config, key.attribute)))

    def subscribe_to(self, keys: Iterable[Key[Any]], subscriber: Subscriber) -> None:
        """Call `subscriber` with the configuration now, and again whenever one of `keys` changes."""
        attributes = []
        of_listeners = False
        for key in keys:
            if key.update is Update.READ_ONLY:
                raise ValueError(f"{key.name} is read-only: there are no changes to subscribe to")
            attributes.append(key.attribute)
            of_listeners = of_listeners or key.per_listener or key.per_mechanism
        subscriber(self.current)
        self._subscriptions.append(_Subscription(tuple(attributes), subscriber, of_listeners))

    def update(self, dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]) -> None:
        """Put the dynamic settings of this broker and of the cluster into force.

        Settings that cannot be used are logged and leave the configuration as it is.
        """
        old = self.current
        if (dynamic, dynamic_default) == (old.layers[0][1], old.layers[1][1]):
            return
        try:
            new = old.with_dynamic(dynamic, dynamic_default)
        except ConfigError as error:
            logger.error(
                "the stored dynamic configuration is not valid, the previous one stays in force: %s. "
                "Correct it with: ottla config alter",
                error,
            )
            return
        self.current = new
        for subscription in list(self._subscriptions):
            if subscription.concerns(old, new):
                self._call(subscription, new)

    def _call(self, subscription: _Subscription, config: BrokerConfig) -> None:
        """Call one subscriber; one that fails must not keep the change from the others."""
        try:
            subscription.subscriber(config)
        except Exception:
            logger.exception("a change of %s was not applied", ", ".join(subscription.attributes))
