"""What requests have in common: media types, bodies, versions, pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

from ottla.http.app import Request, Response, json_response
from ottla.http.errors import HttpError
from ottla.registry import errors
from ottla.registry.contracts import malformed, read_metadata, read_rule_set
from ottla.registry.formats import Reference
from ottla.registry.registration import RegisterRequest

V1_JSON = "application/vnd.schemaregistry.v1+json"
MEDIA_TYPES = (V1_JSON, "application/vnd.schemaregistry+json", "application/json")
BODY_TYPES = frozenset({*MEDIA_TYPES, "application/octet-stream"})
MAX_INT = 2**31 - 1
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
MAX_SCHEMAS = 1_000
"""How many schemas a list has at most, as in Confluent's registry."""


def media_type(request: Request) -> str:
    """Return the media type of the answer, the first of ours that is accepted; raise 406 if none is."""
    accept = request.headers.get("accept", "")
    if not accept:
        return V1_JSON
    wanted = []
    for each in accept.split(","):
        name, _, options = each.partition(";")
        quality = options.replace(" ", "").partition("q=")[2].partition(";")[0]
        try:
            wanted.append((-float(quality or 1), name.strip().lower()))
        except ValueError:
            wanted.append((-1.0, name.strip().lower()))
    for _, name in sorted(wanted, key=lambda pair: pair[0]):
        if name in MEDIA_TYPES:
            return name
        if name in ("*/*", "application/*"):
            return V1_JSON
    raise HttpError(406)


def answer(request: Request, value: Any, status: int = 200) -> Response:
    """Return a JSON answer in a media type that the client accepts."""
    return json_response(value, status, media_type(request))


def body_of(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request carries."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type and content_type not in BODY_TYPES:
        raise HttpError(415)
    if not request.body.strip():
        raise HttpError(422, 422, "The request has no body")
    value = request.json()
    if not isinstance(value, dict):
        raise malformed("it is not a JSON object")
    return value


def integer(value: Any, where: str, default: int) -> int:
    """Return an integer field of a body."""
    if value is None:
        return default
    if isinstance(value, str) and _is_number(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -MAX_INT - 1 <= value <= MAX_INT:
        raise malformed(f"{where} is not an integer")
    return value


def text(value: Any, where: str) -> str | None:
    """Return a string field of a body."""
    if value is not None and not isinstance(value, str):
        raise malformed(f"{where} is not a string")
    return value


def register_request(request: Request) -> RegisterRequest:
    """Return the schema that a request carries."""
    return read_register_request(body_of(request))


def read_register_request(body: dict[str, Any]) -> RegisterRequest:
    """Return the schema in a JSON object; fields that are not known are ignored."""
    references = body.get("references") or []
    if not isinstance(references, list):
        raise malformed("references is not an array")
    return RegisterRequest(
        text(body.get("schema"), "schema") or "",
        text(body.get("schemaType"), "schemaType"),
        tuple(_reference(each) for each in references),
        read_metadata(body.get("metadata")),
        read_rule_set(body.get("ruleSet")),
        integer(body.get("version"), "version", 0),
        integer(body.get("id"), "id", -1),
    )


def _reference(value: Any) -> Reference:
    if not isinstance(value, dict):
        raise malformed("a reference is not an object")
    name, subject = text(value.get("name"), "reference.name"), text(value.get("subject"), "reference.subject")
    if name is None or subject is None:
        raise malformed("a reference has no name or no subject")
    return Reference(name, subject, integer(value.get("version"), "reference.version", -1))


def version_of(value: str) -> int:
    """Return the version that a path names; -1 is the latest. Raises 42202."""
    given = value.strip()
    if given.lower() == "latest":
        return -1
    if not _is_number(given):
        raise errors.invalid_version(value)
    version = int(given)
    if version > MAX_INT or (version <= 0 and version != -1):
        raise errors.invalid_version(value if version > MAX_INT else str(version))
    return version


def id_of(value: str) -> int:
    """Return the id that a path names; there is no such path if it is no number."""
    if not _is_number(value) or abs(int(value)) > MAX_INT:
        raise HttpError(404)
    return int(value)


def _is_number(value: str) -> bool:
    """Return whether a text is a number, and not so long that reading it would fail or take its time."""
    return _NUMBER.fullmatch(value) is not None


def page(request: Request, values: Iterable[Any], most: int = MAX_INT) -> list[Any]:
    """Return the part of a list that `offset` and `limit` ask for."""
    offset, limit = _number(request, "offset", 0), _number(request, "limit", -1)
    if not 0 < limit <= most:
        limit = most
    return list(islice(values, max(0, offset), max(0, offset) + limit))


def _number(request: Request, name: str, default: int) -> int:
    given = request.query.get(name)
    return id_of(given) if given else default
