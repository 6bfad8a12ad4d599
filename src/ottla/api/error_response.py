"""A response that says only that the whole request failed."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE


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
