"""A response that says only that the whole request failed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import MISSING, fields
from functools import cache
from types import SimpleNamespace
from typing import Any, cast, get_args, get_origin, get_type_hints

from ottla.api.support.context import RequestContext
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE

# The answer to a request for the controller that failed as a whole, where responses have no place for that.
#
# Every topic, or every resource, has to be told then. The handlers know how to say so: they are asked
# again, with a controller that refuses everything for the same reason. (To close the connection would be no
# answer: clients try again until their time is up, and never learn why.)


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


def error_response(response_type: type[Any], error: KafkaError) -> Any:
    """Return a `response_type` that carries `error`, or None if it has no place for one."""
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
