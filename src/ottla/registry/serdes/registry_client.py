"""Asks a schema registry for schemas, and remembers the answers.

A schema never changes under its id, so it is asked for once. The latest version of a subject is asked for
again after `latest_ttl_s`. An id that the registry does not know is asked for again after UNKNOWN_TTL_S: bad
records must not become a flood of requests.
"""

from __future__ import annotations

import ssl
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.common.clock import Clock, SystemClock
from ottla.http.json_client import (
    BearerToken,
    HttpRefused,
    HttpUnavailable,
    JsonClient,
    NotJson,
    path_of,
    without_user,
)
from ottla.registry.serdes.errors import RegistryRefused, RegistryUnavailable, SerdeError, UnknownSchema

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
KEYS = ("dek-registry", "v1", "keks")
UNKNOWN_TTL_S = 10.0
MAX_CACHED = 10_000
_UNKNOWN_CODES = (404, 40401, 40402, 40403)
_HINTS = {
    40403: "register it first, or set auto_register=True",
    40401: "register a schema for it first: ottla registry schema register",
    40901: "see why: ottla registry compat check SUBJECT --file FILE",
}


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one refers to: the name in its text, and where it is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as a registry keeps it."""

    text: str
    schema_type: str = "AVRO"
    references: tuple[SchemaReference, ...] = ()
    rule_set: Mapping[str, Any] | None = field(default=None, compare=False)
    metadata: Mapping[str, Any] | None = field(default=None, compare=False)

    def as_json(self) -> dict[str, Any]:
        """Return the body of a request to register it."""
        body: dict[str, Any] = {"schema": self.text}
        if self.schema_type != "AVRO":
            body["schemaType"] = self.schema_type
        if self.references:
            body["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version}
                for each in self.references
            ]
        if self.metadata is not None:
            body["metadata"] = self.metadata
        if self.rule_set is not None:
            body["ruleSet"] = self.rule_set
        return body

    @property
    def tags(self) -> Mapping[str, Sequence[str]]:
        """The tags that its metadata gives to paths."""
        return (self.metadata or {}).get("tags") or {}


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema with the names that records know it by."""

    schema_id: int
    guid: str | None
    version: int | None
    schema: Schema


class _Cache:
    """Remembers answers, the least recently used ones go first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: OrderedDict[Any, tuple[float, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> Any:
        """Return what is remembered; None if there is nothing, or it is too old."""
        with self._lock:
            until, value = self._found.get(key, (0.0, None))
            if value is None or until < self._clock.mono_ms():
                return None
            self._found.move_to_end(key)
            return value

    def put(self, key: Any, value: Any, ttl_s: float = float("inf")) -> Any:
        """Remember something for a time, and return it."""
        with self._lock:
            self._found[key] = (self._clock.mono_ms() + ttl_s * 1000, value)
            while len(self._found) > MAX_CACHED:
                self._found.popitem(last=False)
        return value


class RegistryClient:
    """Reads and registers schemas; safe for threads. Its calls wait for the registry unless they know."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        basic_auth: tuple[str, str] | None = None,
        bearer_token: BearerToken | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout_s: float = 10.0,
        latest_ttl_s: float = 300.0,
        clock: Clock | None = None,
    ) -> None:
        """Take one URL or several, separated by commas; the first that answers is asked from then on."""
        given = [each.strip() for each in (url.split(",") if isinstance(url, str) else url) if each.strip()]
        if not given:
            raise SerdeError("give the URL of a schema registry, such as http://127.0.0.1:8081")
        self._clients = [
            JsonClient(
                _checked(each),
                basic_auth=basic_auth or without_user(given[0])[1],
                bearer_token=bearer_token,
                ssl_context=ssl_context,
                media_type=MEDIA_TYPE,
                timeout_s=timeout_s,
            )
            for each in given
        ]
        self._latest_ttl_s = latest_ttl_s
        self._cache = _Cache(clock or SystemClock())

    @property
    def urls(self) -> list[str]:
        """The registries, the one that is asked first in front."""
        return [each.url for each in self._clients]

    def by_id(self, schema: int | str, schema_format: str | None = None) -> Schema:
        """Return a schema by its id or GUID; raise UnknownSchema."""
        key = ("schema", schema, schema_format)
        found = self._cache.get(key)
        if isinstance(found, UnknownSchema):
            raise UnknownSchema(*found.args)
        if found is not None:
            return found  # type: ignore[no-any-return]
        kind = "guids" if isinstance(schema, str) else "ids"
        try:
            answer = self._ask("GET", path_of("schemas", kind, schema, format=schema_format))
        except RegistryRefused as error:
            if error.code not in _UNKNOWN_CODES:
                raise
            unknown = UnknownSchema(
                f"the registry {self.urls[0]} has no schema with the {kind[:-1]} {schema}: the record was "
                "written with another registry, or the schema was deleted for good"
            )
            raise self._cache.put(key, unknown, UNKNOWN_TTL_S) from None
        return self._cache.put(key, _schema_of(answer))  # type: ignore[no-any-return]

    def latest(self, subject: str, schema_format: str | None = None) -> Registered:
        """Return the latest version of a subject."""
        key = ("latest", subject, schema_format)
        found = self._cache.get(key)
        if found is None:
            path = path_of("subjects", subject, "versions", "latest", format=schema_format)
            found = self._cache.put(key, _registered(self._ask("GET", path)), self._latest_ttl_s)
        return found  # type: ignore[no-any-return]

    def version(self, subject: str, version: int, schema_format: str | None = None) -> Registered:
        """Return a version of a subject; also one that is deleted softly, since references may name it."""
        key = ("version", subject, version, schema_format)
        found = self._cache.get(key)
        if found is None:
            path = path_of("subjects", subject, "versions", version, format=schema_format, deleted="true")
            found = self._cache.put(key, _registered(self._ask("GET", path)))
        return found  # type: ignore[no-any-return]

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        """Register a schema, unless it is there already, and return its names."""
        key = ("register", subject, schema, normalize)
        found = self._cache.get(key)
        if found is None:
            path = path_of("subjects", subject, "versions", normalize="true" if normalize else None)
            answer = self._ask("POST", path, schema.as_json())
            found = self._cache.put(key, _registered(answer, schema))
        return found  # type: ignore[no-any-return]

    def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> Registered:
        """Return the names of a schema that is registered already; raise RegistryRefused if it is not."""
        key = ("lookup", subject, schema, normalize, deleted)
        found = self._cache.get(key)
        if found is None:
            path = path_of(
                "subjects",
                subject,
                normalize="true" if normalize else None,
                deleted="true" if deleted else None,
            )
            answer = self._ask("POST", path, schema.as_json())
            found = self._cache.put(key, _registered(answer, schema))
        return found  # type: ignore[no-any-return]

    def referenced(self, schema: Schema, schema_format: str | None = None) -> dict[str, Schema]:
        """Return everything a schema refers to, by name, each after those that it refers to itself."""
        found: dict[str, Schema] = {}
        waiting = [(each, False) for each in reversed(schema.references)]
        while waiting:
            reference, is_done = waiting.pop()
            if reference.name in found:
                continue
            referred = self.version(reference.subject, reference.version, schema_format).schema
            if is_done or not referred.references:
                found[reference.name] = referred
            else:
                waiting.append((reference, True))
                waiting.extend((each, False) for each in reversed(referred.references))
        return found

    def key(self, *path: object, **query: object) -> Mapping[str, Any] | None:
        """Return a KEK or a DEK of the registry of keys; None if there is none."""
        try:
            return self._ask("GET", path_of(*KEYS, *path, **query))  # type: ignore[no-any-return]
        except RegistryRefused as error:
            if str(error.code).startswith("404"):
                return None
            raise

    def add_key(self, body: Mapping[str, Any], *path: object) -> Mapping[str, Any] | None:
        """Add a KEK or a DEK; None if there is another one under its name."""
        try:
            return self._ask("POST", path_of(*KEYS, *path), body)  # type: ignore[no-any-return]
        except RegistryRefused as error:
            if str(error.code).startswith("409"):
                return None
            raise

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        reasons = []
        for client in list(self._clients):
            try:
                answer = self._send(client, method, path, body)
            except RegistryUnavailable as error:
                reasons.append(str(error))
                continue
            if self._clients[0] is not client:
                self._clients = [client, *(each for each in self._clients if each is not client)]
            return answer
        raise RegistryUnavailable("; ".join(reasons) + ". Start one (ottla registry serve) or try again")

    def _send(self, client: JsonClient, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        try:
            return client.ask(method, path, body)
        except HttpRefused as error:
            raise _refused(client.url, error) from None
        except HttpUnavailable as error:
            raise RegistryUnavailable(f"no registry at {client.url}: {error}") from None
        except NotJson:
            raise RegistryUnavailable(f"what answers at {client.url} is not a schema registry") from None


def _checked(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise SerdeError(f"the URL of a registry begins with http:// or https://, unlike {url!r}")
    return url


def _schema_of(answer: Mapping[str, Any]) -> Schema:
    references = tuple(
        SchemaReference(each["name"], each["subject"], each["version"])
        for each in answer.get("references") or ()
    )
    return Schema(
        answer["schema"],
        answer.get("schemaType") or "AVRO",
        references,
        answer.get("ruleSet"),
        answer.get("metadata"),
    )


def _registered(answer: Mapping[str, Any], schema: Schema | None = None) -> Registered:
    stored = _schema_of(answer) if schema is None else schema
    return Registered(answer["id"], answer.get("guid"), answer.get("version"), stored)


def _refused(url: str, error: HttpRefused) -> SerdeError:
    try:
        code, message = int(error.body["error_code"]), str(error.body.get("message", f"HTTP {error.status}"))
    except (ValueError, KeyError, TypeError):
        if error.status in (401, 403):
            return RegistryRefused(error.status, f"{url} refuses the user", "give basic_auth or bearer_token")
        return RegistryUnavailable(f"what answers at {url} is not a schema registry (HTTP {error.status})")
    if error.status >= 500:
        return RegistryUnavailable(f"the registry {url} cannot answer: {message} ({code})")
    return RegistryRefused(code, message, _HINTS.get(code, ""))
