"""The rule for topic names, with the error of the protocol."""

from __future__ import annotations

from ottla.common.topic_names import why_illegal
from ottla.protocol.errors import InvalidTopicException


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicException, with the reason, if no topic may be called `name`."""
    if reason := why_illegal(name):
        raise InvalidTopicException(reason)
