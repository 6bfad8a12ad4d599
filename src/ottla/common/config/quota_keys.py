"""Broker keys of client quotas: how much a client may use at once."""

from __future__ import annotations

from ottla.common.config.declaration import Config, Importance, Key
from ottla.common.config.types import INT, at_least


class QuotaKeys(Config):
    """The windows of the quotas."""

    quota_window_num = Key(
        "quota.window.num",
        INT,
        11,
        "How many windows of its `connection_creation_rate` an address may use at once, and of "
        "`max.connection.creation.rate` all of them.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    quota_window_size_seconds = Key(
        "quota.window.size.seconds",
        INT,
        1,
        "The length of these windows. A client may use one window of its byte rates and of its "
        "`request_percentage` at once, for example after silence.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    controller_quota_window_num = Key(
        "controller.quota.window.num",
        INT,
        11,
        "How many windows of its `controller_mutation_rate` a client may use at once.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    controller_quota_window_size_seconds = Key(
        "controller.quota.window.size.seconds",
        INT,
        1,
        "The length of each of these windows.",
        check=at_least(1),
        importance=Importance.LOW,
    )
