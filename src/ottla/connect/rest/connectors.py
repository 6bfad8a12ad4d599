"""The calls under /connectors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from ottla.connect.errors import bad_request
from ottla.connect.herder.cluster_state import PAUSED, STARTED
from ottla.connect.herder.requests import TARGETS, Requests
from ottla.connect.rest.access import ConnectorAccess
from ottla.connect.rest.forwarding import Forwarder
from ottla.http.app import Request, Response, json_response
from ottla.http.errors import HttpError
from ottla.http.routing import Routes
from ottla.security.acls import Operation

Handler = Callable[[Request], Awaitable[Response]]
NAME = "/connectors/{connector}"


class ConnectorRoutes:
    """Adds the calls to a table of routes."""

    def __init__(self, requests: Requests, access: ConnectorAccess, forwarder: Forwarder) -> None:
        self._requests = requests
        self._access = access
        self._forwarder = forwarder
        self._herder = requests.herder

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        for method, path, handler in (
            ("GET", "/connectors", self.list),
            ("GET", NAME, self.info),
            ("GET", f"{NAME}/config", self.config),
            ("GET", f"{NAME}/status", self.status),
            ("GET", f"{NAME}/tasks", self.tasks),
            ("GET", f"{NAME}/tasks/{{task}}/status", self.task_status),
            ("GET", f"{NAME}/topics", self.topics),
            ("GET", f"{NAME}/offsets", self.offsets),
            ("PUT", f"{NAME}/topics/reset", self.reset_topics),
            ("POST", f"{NAME}/tasks/{{task}}/restart", self.restart_task),
        ):
            routes.add(method, path, handler)
        for method, path, handler in (
            ("PATCH", f"{NAME}/config", self.patch_config),
            ("DELETE", NAME, self.delete),
            ("PUT", f"{NAME}/pause", self.pause),
            ("PUT", f"{NAME}/resume", self.resume),
            ("PUT", f"{NAME}/stop", self.stop),
            ("POST", f"{NAME}/restart", self.restart),
            ("PATCH", f"{NAME}/offsets", self.alter_offsets),
            ("DELETE", f"{NAME}/offsets", self.reset_offsets),
        ):
            routes.add(method, path, self._by_leader(handler))
        for method, path, handler, name_of in (
            ("POST", "/connectors", self.create, lambda request: _new_name(_object(request))),
            ("PUT", f"{NAME}/config", self.put_config, lambda request: str(request.params["connector"])),
        ):
            routes.add(method, path, self._checked(name_of, self._by_leader(handler)))

    def _by_leader(self, handler: Handler) -> Handler:
        """Return a handler that has the leader answer."""

        async def answer(request: Request) -> Response:
            if self._herder.leader_url is None:
                await self._requests.settle()
            return await self._forwarder.to_leader(request) or await handler(request)

        return answer

    def _checked(self, name_of: Callable[[Request], str], handler: Handler) -> Handler:
        """Return a handler that refuses with 403 to create a connector which the sender may not create.

        Also where the leader will answer: it knows the address of this worker only, not of the sender.
        """

        async def answer(request: Request) -> Response:
            name = name_of(request)
            if request.method == "POST" or name not in self._herder.state.connectors:
                self._access.check(request, name, Operation.CREATE)
            return await handler(request)

        return answer

    # Reading.

    async def list(self, request: Request) -> Response:
        """GET /connectors, also with ?expand=status&expand=info."""
        names = [
            name
            for name in sorted(self._herder.state.connectors)
            if self._access.may(request, name, Operation.DESCRIBE)
        ]
        if "expand" not in request.query:
            return json_response(names)
        wanted = request.query.getlist("expand")
        found: dict[str, Any] = {}
        for name in names:
            try:
                found[name] = {
                    each: self._requests.status(name) if each == "status" else self._requests.info(name)
                    for each in wanted
                    if each in ("status", "info")
                }
            except HttpError:  # it has no state yet, or is gone
                continue
        return json_response(found)

    async def info(self, request: Request) -> Response:
        """GET /connectors/NAME."""
        self._requests.config(request.params["connector"])
        return json_response(self._requests.info(request.params["connector"]))

    async def config(self, request: Request) -> Response:
        """GET /connectors/NAME/config."""
        return json_response(self._requests.config(request.params["connector"]))

    async def status(self, request: Request) -> Response:
        """GET /connectors/NAME/status."""
        return json_response(self._requests.status(request.params["connector"]))

    async def tasks(self, request: Request) -> Response:
        """GET /connectors/NAME/tasks."""
        return json_response(self._requests.tasks(request.params["connector"]))

    async def task_status(self, request: Request) -> Response:
        """GET /connectors/NAME/tasks/N/status."""
        return json_response(self._requests.task_status(request.params["connector"], _task(request)))

    async def topics(self, request: Request) -> Response:
        """GET /connectors/NAME/topics."""
        return json_response(self._requests.topics(request.params["connector"]))

    async def offsets(self, request: Request) -> Response:
        """GET /connectors/NAME/offsets."""
        return json_response(await self._requests.offsets(request.params["connector"]))

    # Changing.

    async def create(self, request: Request) -> Response:
        """POST /connectors."""
        body = _object(request)
        if unknown := sorted(body.keys() - CREATE_KEYS):
            raise bad_request(f"{unknown[0]} is unknown here: a request has name, config and initial_state")
        config = _config(body.get("config"))
        name = _new_name(body)
        target = _initial_state(body.get("initial_state"))
        _check_name(name, config)
        _, info = await self._requests.put(name, config, replace=False, target=target)
        return _created(name, info)

    async def put_config(self, request: Request) -> Response:
        """PUT /connectors/NAME/config."""
        name, config = request.params["connector"], _config(_object(request))
        _check_name(name, config)
        is_new, info = await self._requests.put(name, config, replace=True)
        return _created(name, info) if is_new else json_response(info)

    async def patch_config(self, request: Request) -> Response:
        """PATCH /connectors/NAME/config."""
        changes = {key: None if value is None else _text(value) for key, value in _object(request).items()}
        name = request.params["connector"]
        if "name" in changes:
            _check_name(name, {"name": changes["name"] or ""})
        return json_response(await self._requests.patch(name, changes))

    async def delete(self, request: Request) -> Response:
        """DELETE /connectors/NAME."""
        await self._requests.delete(request.params["connector"])
        return Response(status=204)

    async def pause(self, request: Request) -> Response:
        """PUT /connectors/NAME/pause."""
        await self._requests.set_target(request.params["connector"], PAUSED)
        return Response(status=202)

    async def resume(self, request: Request) -> Response:
        """PUT /connectors/NAME/resume."""
        await self._requests.set_target(request.params["connector"], STARTED)
        return Response(status=202)

    async def stop(self, request: Request) -> Response:
        """PUT /connectors/NAME/stop."""
        await self._requests.stop(request.params["connector"])
        return Response(status=204)

    async def restart(self, request: Request) -> Response:
        """POST /connectors/NAME/restart."""
        answer = await self._requests.restart(
            request.params["connector"],
            include_tasks=request.flag("includeTasks"),
            only_failed=request.flag("onlyFailed"),
        )
        return Response(status=204) if answer is None else json_response(answer, 202)

    async def restart_task(self, request: Request) -> Response:
        """POST /connectors/NAME/tasks/N/restart: its owner restarts it."""
        await self._requests.settle()
        what = self._requests.check_task(request.params["connector"], _task(request))
        if what in self._herder.ours:
            self._herder.runner.restart_task(what)
            return Response(status=204)
        answer = await self._forwarder.to_leader(request)
        if answer is not None:
            return answer
        owner = self._herder.owners.get(what)
        if owner is None:
            raise HttpError(409, 409, "Cannot restart task since it is not assigned to this member")
        return await self._forwarder.to_worker(request, owner)

    async def reset_topics(self, request: Request) -> Response:
        """PUT /connectors/NAME/topics/reset."""
        await self._requests.reset_topics(request.params["connector"])
        return Response(status=202)

    async def alter_offsets(self, request: Request) -> Response:
        """PATCH /connectors/NAME/offsets."""
        return json_response(await self._requests.alter_offsets(request.params["connector"], request.json()))

    async def reset_offsets(self, request: Request) -> Response:
        """DELETE /connectors/NAME/offsets."""
        return json_response(await self._requests.reset_offsets(request.params["connector"]))


def _object(request: Request) -> dict[str, Any]:
    body = request.json()
    if not isinstance(body, dict):
        raise bad_request("The request's body is not a JSON object")
    return body


def _new_name(body: Mapping[str, Any]) -> str:
    name = body.get("name")
    return name.strip() if isinstance(name, str) else ""


def _text(value: Any) -> str:
    """Return a config value as text: Connect takes numbers and booleans, too."""
    if isinstance(value, dict | list):
        raise bad_request(f"A config value is a text, not {value}")
    return (
        value
        if isinstance(value, str)
        else "true"
        if value is True
        else "false"
        if value is False
        else str(value)
    )


def _config(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        raise bad_request("The request has no config")
    return {key: _text(value) for key, value in given.items() if value is not None}


def _check_name(name: str, config: dict[str, str]) -> None:
    included = config.setdefault("name", name)
    if included != name:
        raise bad_request(
            f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})"
        )


CREATE_KEYS = {"name", "config", "initial_state"}


def _initial_state(given: Any) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or given.upper() not in TARGETS:
        raise bad_request(f"initial_state must be one of {', '.join(TARGETS)}, not {given}")
    return TARGETS[given.upper()]


def _created(name: str, info: dict[str, Any]) -> Response:
    answer = json_response(info, 201)
    answer.headers = ((b"location", f"/connectors/{quote(name, safe='')}".encode()),)
    return answer


def _task(request: Request) -> int:
    if not request.params["task"].isdecimal():
        raise HttpError(404)
    return int(request.params["task"])
