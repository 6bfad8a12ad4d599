"""A schema registry by its REST API."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.console.services.http_json import ServiceRefused, ask
from ottla.http.json_client import JsonClient, path_of

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
AT_ONCE = 8


class RegistryHttp:
    """Asks one registry."""

    def __init__(self, url: str) -> None:
        self._client = JsonClient(url, media_type=MEDIA_TYPE)
        self.url = self._client.url

    async def get(self, *segments: object, **query: object) -> Any:
        """GET a path."""
        return await ask(self._client, "GET", path_of(*segments, **query))

    async def post(self, body: Any, *segments: object, **query: object) -> Any:
        """POST to a path."""
        return await ask(self._client, "POST", path_of(*segments, **query), body)

    async def put(self, body: Any, *segments: object) -> Any:
        """PUT to a path."""
        return await ask(self._client, "PUT", path_of(*segments), body)

    async def delete(self, *segments: object, **query: object) -> Any:
        """DELETE a path."""
        return await ask(self._client, "DELETE", path_of(*segments, **query))

    async def subjects(self) -> list[str]:
        """Return the names of all subjects."""
        return sorted(await self.get("subjects"))

    async def deleted_subjects(self) -> list[str]:
        """Return the names of the subjects that are deleted, but not for good."""
        return sorted({*await self.get("subjects", deleted="true")} - {*await self.get("subjects")})

    async def mode(self, subject: str | None = None) -> str:
        """Return the mode of a subject, or the global one; an empty text if the registry has no modes."""
        segments = ("mode",) if subject is None else ("mode", subject)
        try:
            found = await self.get(*segments, **({} if subject is None else {"defaultToGlobal": "true"}))
        except ServiceRefused:
            return ""
        return str(found.get("mode", ""))

    async def latest_of(self, subjects: list[str]) -> dict[str, dict[str, Any]]:
        """Return the latest version of each subject."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(subject: str) -> dict[str, Any]:
            async with turns:
                try:
                    return dict(await self.get("subjects", subject, "versions", "latest"))
                except ServiceRefused as error:
                    return {"error": str(error)}

        found = await asyncio.gather(*(one(each) for each in subjects))
        return dict(zip(subjects, found, strict=True))

    async def level(self, subject: str | None = None) -> str:
        """Return the compatibility level of a subject, or the global one."""
        segments = ("config",) if subject is None else ("config", subject)
        found = await self.get(*segments, **({} if subject is None else {"defaultToGlobal": "true"}))
        return str(found.get("compatibilityLevel", ""))
