"""Makes another registry have what a plan says: registers in IMPORT mode, deletes what is deleted here.

The first pass asks the other registry what it has, and sends the difference: a copier that dies in the middle
loses nothing and doubles nothing. Later passes compare with what was sent. Versions that another client has
registered there are never touched: another schema in its place is an error, and only copies are deleted.
"""

from __future__ import annotations

import ssl
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ottla.http.json_client import HttpRefused, HttpUnavailable, JsonClient, NotJson, path_of
from ottla.registry.entities import Json
from ottla.registry.exporters.plan import Copy
from ottla.registry.exporters.records import URL_KEY
from ottla.registry.scopes import DEFAULT_LEVEL
from ottla.registry.subjects import parse_subject

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
NOT_FOUND = 404
IMPORT = "IMPORT"
LEVEL = "compatibilityLevel"

Versions = dict[int, bool]
"""Whether each version of a subject is soft deleted."""


class ExportFailed(Exception):
    """The other registry does not answer, or refuses; the text says what and why."""


def client_of(config: dict[str, str]) -> JsonClient:
    """Return a client by Confluent's keys."""
    user, colon, password = config.get("basic.auth.user.info", "").partition(":")
    context = None
    authority = config.get("ssl.ca.location") or config.get("schema.registry.ssl.ca.location")
    if authority:
        try:
            context = ssl.create_default_context(cafile=authority)
        except (OSError, ssl.SSLError) as error:
            raise ExportFailed(f"ssl.ca.location {authority}: {error}") from None
    return JsonClient(
        config[URL_KEY].split(",")[0],
        basic_auth=(user, password) if colon else None,
        bearer_token=config.get("bearer.auth.token"),
        ssl_context=context,
        media_type=MEDIA_TYPE,
    )


class Copier:
    """Copies to one registry; its calls wait, so it runs in a thread."""

    def __init__(self, config: dict[str, str]) -> None:
        self._client = client_of(config)
        self._there: dict[str, Versions] = {}
        """What the other registry has, of the subjects that were looked at."""
        self._imports: set[str] = set()
        """Subjects and contexts that are in IMPORT mode."""
        self._copied: dict[str, set[int]] = defaultdict(set)
        """What an earlier pass has found or put there."""
        self._configs: dict[str, Json] = {}
        """The same, of configs of subjects."""

    def copy(self, wanted: list[Copy], configs: Mapping[str, Json] | None = None) -> int:
        """Make the other registry have these versions and configs; delete what was copied and is gone.

        Counts changes.
        """
        by_subject: dict[str, dict[int, Copy]] = defaultdict(dict)
        for each in wanted:
            by_subject[each.subject][each.version] = each
        changes = 0
        for each in wanted:
            changes += self._register(each)
        for subject in list(self._copied):
            changes += self._delete(subject, by_subject.get(subject, {}))
        return changes + self._configure(configs or {})

    def _configure(self, wanted: Mapping[str, Json]) -> int:
        """Make the other registry have these configs; remove those that were copied and are gone."""
        changes = 0
        for subject, config in wanted.items():
            if self._configs.get(subject) == config:
                continue
            there = self._find("GET", path_of("config", subject))
            if there not in (config, {LEVEL: DEFAULT_LEVEL, **config}):
                if there is not None and not there.keys() <= {LEVEL, *config}:
                    self._find("DELETE", path_of("config", subject))  # what is not given would stay
                body = {"compatibility" if name == LEVEL else name: config[name] for name in config}
                self._ask("PUT", path_of("config", subject), body)
                changes += 1
            self._configs[subject] = config
        for subject in self._configs.keys() - wanted.keys():
            if self._find("DELETE", path_of("config", subject)) is not None:
                changes += 1
            del self._configs[subject]
        return changes

    def _register(self, copy: Copy) -> int:
        versions = self._versions(copy.subject)
        if copy.version in self._copied[copy.subject]:
            return 0
        if copy.version in versions:
            self._check(copy)
            self._copied[copy.subject].add(copy.version)
            return 0
        self._import_into(copy.subject)
        self._ask("POST", path_of("subjects", copy.subject, "versions"), copy.body)
        versions[copy.version] = False
        self._copied[copy.subject].add(copy.version)
        return 1

    def _check(self, copy: Copy) -> None:
        """Raise ExportFailed if the version there is another schema."""
        there = self._ask("GET", path_of("subjects", copy.subject, "versions", copy.version, deleted=True))
        if (there["id"], there["schema"]) != (copy.body["id"], copy.body["schema"]):
            raise ExportFailed(
                f"{self._client.url} has another schema as version {copy.version} of {copy.subject}: "
                "export into a context of its own (contextType AUTO or CUSTOM)"
            )

    def _delete(self, subject: str, wanted: dict[int, Copy]) -> int:
        """Delete versions softly that are deleted here, and for good those that are gone."""
        versions, changes = self._versions(subject), 0
        for version in sorted(self._copied[subject]):
            copy, is_deleted = wanted.get(version), versions[version]
            path = ("subjects", subject, "versions", version)
            if (copy is None or copy.is_deleted) and not is_deleted:
                self._ask("DELETE", path_of(*path))
                versions[version] = True
                changes += 1
            if copy is None:
                self._ask("DELETE", path_of(*path, permanent=True))
                del versions[version]
                self._copied[subject].remove(version)
                changes += 1
        return changes

    def _versions(self, subject: str) -> Versions:
        if subject not in self._there:
            alive = set(self._list(subject))
            every = alive | set(self._list(subject, deleted=True))
            self._there[subject] = {version: version not in alive for version in every}
        return self._there[subject]

    def _list(self, subject: str, **query: object) -> list[int]:
        return list(self._find("GET", path_of("subjects", subject, "versions", **query)) or ())

    def _find(self, method: str, path: str) -> Any:
        """Return the answer, or None if there is no such thing."""
        try:
            return self._send(method, path)
        except HttpRefused as error:
            if error.status == NOT_FOUND:
                return None
            raise self._refused(error, f"{method} {path}") from None

    def _import_into(self, subject: str) -> None:
        """Let the other registry take ids and versions: for the whole context, or for the subject."""
        found = parse_subject(subject)
        place = found.prefix or subject
        if place not in self._imports:
            self._ask("PUT", path_of("mode", place, force=True), {"mode": IMPORT})
            self._imports.add(place)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            return self._send(method, path, body)
        except HttpRefused as error:
            raise self._refused(error, f"{method} {path}") from None

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        try:
            return self._client.ask(method, path, body)
        except HttpUnavailable as error:
            raise ExportFailed(f"no registry at {self._client.url}: {error}") from None
        except NotJson as error:
            raise ExportFailed(str(error)) from None

    def _refused(self, error: HttpRefused, what: str) -> ExportFailed:
        said = error.body.get("message") if isinstance(error.body, dict) else None
        return ExportFailed(
            f"the registry at {self._client.url} refused {what}: {said or f'HTTP {error.status}'}"
        )
