"""The answer to a request for the controller that failed as a whole, where responses have no place for that.

Every topic, or every resource, has to be told then. The handlers know how to say so: they are asked again,
with a controller that refuses everything for the same reason. (To close the connection would be no answer:
clients try again until their time is up, and never learn why.)
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from types import SimpleNamespace
from typing import Any, cast

from ottla.api.context import RequestContext
from ottla.protocol.errors import KafkaError


def refusing(ctx: RequestContext, error: KafkaError) -> RequestContext:
    """Return the context of the same request, with a controller that refuses everything."""
    services = copy(ctx.services)
    services.controller = cast(Any, SimpleNamespace(office=_RefusingOffice(error)))
    return RequestContext(
        services, ctx.connection, ctx.api_key, ctx.version, ctx.correlation_id, ctx.client_id, ctx.times
    )


class _RefusingOffice:
    """As much of an `Office` as those handlers see."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    async def _refuse(self, items: Sequence[object], **_: object) -> list[KafkaError]:
        return [self._error] * len(items)

    create_topics = delete_topics = create_partitions = alter_configs = _refuse
