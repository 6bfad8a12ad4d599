"""Responses to requests that failed as a whole.

Most responses have a top-level error code: `error_response` fills it in. Some have only one per topic or
resource. For these, `rejecting` returns a context whose controller fails every item with the same error, and
the handler builds the response as usual. Closing the connection instead would hide the reason: clients would
retry until they time out.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import MISSING, fields
from functools import cache
from types import SimpleNamespace
from typing import Any, cast, get_args, get_origin, get_type_hints

from ottla.api.support.context import RequestContext
from ottla.controller.machine import ScramDeletion, ScramUpsertion
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE


def rejecting(ctx: RequestContext, error: KafkaError) -> RequestContext:
    """Return the context of the same request, with a controller that rejects every item."""
    services = copy(ctx.services)
    services.audit = None
    services.controller = cast(Any, SimpleNamespace(active_controller=_RejectingController(error)))
    services.quotas = None
    return RequestContext(
        services, ctx.connection, ctx.api_key, ctx.version, ctx.correlation_id, ctx.client_id, ctx.times
    )


class _RejectingController:
    """The methods of the active controller that these handlers call."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    async def _refuse(self, items: Sequence[object], **_: object) -> list[KafkaError]:
        return [self._error] * len(items)

    create_topics = delete_topics = create_partitions = alter_configs = create_acls = delete_acls = _refuse
    alter_client_quotas = _refuse

    async def alter_scram_credentials(
        self, changes: Sequence[ScramUpsertion | ScramDeletion]
    ) -> dict[str, KafkaError]:
        return {each.user: self._error for each in changes}


def error_response(response_type: type[Any], error: KafkaError) -> Any:
    """Return a `response_type` with `error`, or None if it has no top-level error code."""
    blank = _blank_fields(response_type)  # type: ignore[arg-type]
    if "error_code" not in blank:
        return None
    values = {**blank, "error_code": error.code}
    if "error_message" in values:
        values["error_message"] = error.message
    return response_type(**values)


@cache
def _blank_fields(response_type: type[Any]) -> dict[str, Any]:
    """Return every field with its default, or with the empty value of its type."""
    hints = get_type_hints(response_type)
    blank: dict[str, Any] = {}
    for each in fields(response_type):
        kafka_type = each.metadata.get("kafka_type", "")
        if each.default is not MISSING:
            blank[each.name] = each.default
        elif type(None) in get_args(hints[each.name]):
            blank[each.name] = None
        elif get_origin(hints[each.name]) is tuple:
            blank[each.name] = ()
        elif kafka_type.startswith("timedelta"):
            blank[each.name] = NO_THROTTLE
        elif kafka_type == "string":
            blank[each.name] = ""
        elif kafka_type == "bytes":
            blank[each.name] = b""
        elif kafka_type == "bool":
            blank[each.name] = False
        else:
            blank[each.name] = -1
    return blank
