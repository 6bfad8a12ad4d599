"""Kafka Connect by its REST API: Ottla's, and Apache Kafka's."""

from __future__ import annotations

from typing import Any

from ottla.console.services.http_json import ServiceRefused, ask
from ottla.http.json_client import JsonClient, path_of

NOT_FOUND, NOT_ALLOWED = 404, 405


class ConnectClient:
    """Asks one Connect cluster."""

    def __init__(self, url: str) -> None:
        self._client = JsonClient(url)
        self.url = self._client.url
        self._secrets: dict[str, frozenset[str]] = {}

    async def get(self, *segments: object, **query: object) -> Any:
        """GET a path."""
        return await ask(self._client, "GET", path_of(*segments, **query))

    async def maybe(self, *segments: object) -> dict[str, Any] | None:
        """GET what older versions do not have; None if it is not there."""
        try:
            return dict(await self.get(*segments))
        except ServiceRefused as error:
            if error.status not in (NOT_FOUND, NOT_ALLOWED):
                raise
            return None

    async def send(self, method: str, body: Any, *segments: object, **query: object) -> Any:
        """Send a change."""
        return await ask(self._client, method, path_of(*segments, **query), body)

    async def connectors(self) -> dict[str, Any]:
        """Return all connectors with their status and their settings."""
        path = "/connectors?expand=status&expand=info"
        return dict(await ask(self._client, "GET", path))

    async def status(self, name: str) -> dict[str, Any]:
        """Return the state of a connector and its tasks; a new one has none until a worker starts it."""
        try:
            return dict(await self.get("connectors", name, "status"))
        except ServiceRefused as error:
            if error.status != NOT_FOUND:
                raise
            return {"connector": {"state": "UNASSIGNED"}}

    async def secrets(self, name: str, config: dict[str, str]) -> frozenset[str]:
        """Return the settings that a connector's class declares as passwords; it is asked once."""
        plugin = config.get("connector.class", "")
        if plugin not in self._secrets:
            try:
                found = await self.validate(plugin.rpartition(".")[2], {"name": name, **config})
            except ServiceRefused:
                return frozenset()
            definitions = (each["definition"] for each in found.get("configs", []))
            self._secrets[plugin] = frozenset(
                each["name"] for each in definitions if each.get("type") == "PASSWORD"
            )
        return self._secrets[plugin]

    async def plugins(self) -> list[dict[str, Any]]:
        """Return the connector classes that are installed."""
        return list(await self.get("connector-plugins"))

    async def validate(self, plugin: str, config: dict[str, str]) -> dict[str, Any]:
        """Return the settings of a class with their docs, and what is wrong with the given ones."""
        return dict(await self.send("PUT", config, "connector-plugins", plugin, "config", "validate"))
