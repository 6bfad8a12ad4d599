"""The application: the calls beside /connectors, and all of them together."""

from __future__ import annotations

import logging
import ssl
from typing import Any

from ottla import __version__
from ottla.connect.config.validation import definition
from ottla.connect.errors import WrongConfig, bad_request, internal, not_found
from ottla.connect.herder.requests import Requests
from ottla.connect.rest.access import ConnectorAccess
from ottla.connect.rest.connectors import ConnectorRoutes
from ottla.connect.rest.forwarding import Forwarder
from ottla.connect.rest.metrics import WorkerMetrics
from ottla.http.app import JSON, HttpApp, Request, Response, json_response
from ottla.http.errors import HttpError
from ottla.http.limits import HttpLimits
from ottla.http.routing import Handler, Routes
from ottla.security.acls import Operation

API_VERSION = "4.3.1"
"""The version of Kafka Connect whose REST API this is."""
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF", "ALL")
_PYTHON_LEVELS = {
    "ALL": logging.DEBUG,
    "TRACE": logging.DEBUG,
    "OFF": logging.CRITICAL,
    "FATAL": logging.CRITICAL,
    "WARN": logging.WARNING,
}


def make_app(
    requests: Requests,
    limits: HttpLimits | None = None,
    access: ConnectorAccess | None = None,
    peer_tls: ssl.SSLContext | None = None,
) -> HttpApp:
    """Return the application; `peer_tls` is how other workers are trusted."""
    routes = Routes()
    access = access or ConnectorAccess()
    ConnectorRoutes(requests, access, Forwarder(requests.herder, peer_tls)).add_to(routes)
    PluginRoutes(requests, access).add_to(routes)
    LoggerRoutes(requests).add_to(routes)
    metrics = WorkerMetrics(requests.herder)
    metrics.add_to(routes)
    app = HttpApp(routes, limits)
    app.observe = metrics.requests.observe
    app.around = refuse_other_bodies
    return app


async def refuse_other_bodies(request: Request, handler: Handler) -> Any:
    """Answer a request, unless its body is not JSON: browsers send plain text anywhere.

    Kafka Connect takes no other body, either.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.body and kind != JSON and not kind.endswith("+json"):
        raise HttpError(415, 415, "HTTP 415 Unsupported Media Type: the body must be application/json")
    return await handler(request)


class PluginRoutes:
    """The worker itself, and its plugins."""

    def __init__(self, requests: Requests, access: ConnectorAccess) -> None:
        self._requests = requests
        self._access = access
        self._herder = requests.herder

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        routes.add("GET", "/", self.root)
        routes.add("GET", "/health", self.health)
        routes.add("GET", "/connector-plugins", self.list)
        routes.add("GET", "/connector-plugins/{plugin}/config", self.config)
        routes.add("PUT", "/connector-plugins/{plugin}/config/validate", self.validate)

    async def root(self, request: Request) -> Response:
        """GET /."""
        return json_response(
            {
                "version": API_VERSION,
                "commit": f"ottla-{__version__}",
                "kafka_cluster_id": self._herder.cluster.cluster_id,
            }
        )

    async def health(self, request: Request) -> Response:
        """GET /health."""
        if self._herder.leader_url is None:
            text = "Worker is still starting up or rebalancing."
            return json_response({"status": "starting", "message": text}, 503)
        text = "Worker has completed startup and is ready to handle requests."
        return json_response({"status": "healthy", "message": text})

    async def list(self, request: Request) -> Response:
        """GET /connector-plugins."""
        only = request.query.get("connectorsOnly", "true").lower() != "false"
        return json_response(self._herder.plugins.listed(connectors_only=only))

    async def config(self, request: Request) -> Response:
        """GET /connector-plugins/PLUGIN/config."""
        name = request.params["plugin"]
        found: Any = self._herder.plugins.plugin(name)
        if found is None:
            raise not_found(f"Unknown plugin {name}.")
        return json_response([definition(each) for each in found.keys])

    async def validate(self, request: Request) -> Response:
        """PUT /connector-plugins/PLUGIN/config/validate."""
        name, config = request.params["plugin"], request.json()
        if not isinstance(config, dict):
            raise bad_request("The request's body is not a JSON object")
        given = {key: None if value is None else str(value) for key, value in config.items()}
        self._access.check(request, given.get("name") or "", Operation.CREATE, Operation.ALTER)
        included = given.get("connector.class")
        if included is not None and not (
            included == name
            or included.endswith("." + name)
            or included.rpartition(".")[2] in (name, f"{name}Connector")
        ):
            raise bad_request(f"Included connector type {included} does not match request type {name}")
        given.setdefault("connector.class", name)
        try:
            return json_response((await self._requests.validated(given)).as_json())
        except WrongConfig:
            raise internal(self._herder.plugins.unknown_text(given["connector.class"] or "")) from None


class LoggerRoutes:
    """The levels of loggers."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._changed: dict[str, tuple[str, int]] = {}

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        routes.add("GET", "/admin/loggers", self.list)
        routes.add("GET", "/admin/loggers/{logger}", self.get)
        routes.add("PUT", "/admin/loggers/{logger}", self.put)

    async def list(self, request: Request) -> Response:
        """GET /admin/loggers."""
        names = [
            name
            for name, each in logging.Logger.manager.loggerDict.items()
            if isinstance(each, logging.Logger) and each.level
        ]
        return json_response({name: self._shown(name) for name in sorted({"root", *names})})

    async def get(self, request: Request) -> Response:
        """GET /admin/loggers/NAME."""
        name = request.params["logger"]
        if name != "root" and not isinstance(logging.Logger.manager.loggerDict.get(name), logging.Logger):
            raise not_found(f"Logger {name} not found.")
        return json_response(self._shown(name))

    async def put(self, request: Request) -> Response:
        """PUT /admin/loggers/NAME, with ?scope=worker (default) or cluster."""
        name, body = request.params["logger"], request.json()
        level = body.get("level") if isinstance(body, dict) else None
        if level is None:
            raise bad_request("Desired 'level' parameter was not specified in request.")
        if str(level).upper() not in LEVELS:
            raise not_found(f"invalid log level '{level}'.")
        python_level = _PYTHON_LEVELS.get(str(level).upper(), str(level).upper())
        if request.query.get("scope", "worker").lower() == "cluster":
            number = logging.getLevelName(python_level) if isinstance(python_level, int) else python_level
            await self._requests.set_logger(name, str(number))
            return Response(status=204)
        changed = [name, *(each for each in logging.Logger.manager.loggerDict if each.startswith(name + "."))]
        for each in changed:
            logging.getLogger(None if each == "root" else each).setLevel(python_level)
            self._changed[each] = (str(level).upper(), self._requests.herder.runner.wall_ms())
        return json_response(sorted(changed))

    def _shown(self, name: str) -> dict[str, Any]:
        logger = logging.getLogger(None if name == "root" else name)
        level, when = self._changed.get(name, (logging.getLevelName(logger.getEffectiveLevel()), None))
        return {"level": {"WARNING": "WARN", "CRITICAL": "FATAL"}.get(level, level), "last_modified": when}
