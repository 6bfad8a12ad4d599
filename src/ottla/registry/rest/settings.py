"""/config, /mode, /contexts and /compatibility; and what the server says of itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ottla import __version__
from ottla.http.app import Request, Response
from ottla.http.errors import HttpError
from ottla.http.routing import Routes
from ottla.registry import decisions, errors
from ottla.registry.contracts import malformed, read_metadata, read_rule_set
from ottla.registry.entities import Json
from ottla.registry.formats import LEVELS
from ottla.registry.rest.access import check_references, found_subject
from ottla.registry.rest.requests import answer, body_of, page, register_request, text, version_of
from ottla.registry.scopes import config_in_scope, mode_in_scope, own_config, own_mode
from ottla.registry.service import Registry
from ottla.registry.subjects import is_valid, normalize_context, parse_subject

GROUP_ID = "schema-registry"
FLAGS = ("normalize", "validateFields", "validateNewSchemas", "validateRules")
NAMES = ("alias", "aliasForDeks", "compatibilityGroup")
POLICIES = ("STRICT", "LENIENT")

Handler = Callable[[Request, str | None], Awaitable[Response]]


class SettingRoutes:
    """Serves config and mode, of a subject, a context or all; contexts; compatibility; metadata."""

    def __init__(self, registry: Registry, cluster_id: Callable[[], str | None]) -> None:
        self._registry = registry
        self._cluster_id = cluster_id

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        settings: tuple[tuple[str, str, Handler], ...] = (
            ("GET", "/config", self.get_config),
            ("PUT", "/config", self.put_config),
            ("DELETE", "/config", self.delete_config),
            ("GET", "/mode", self.get_mode),
            ("PUT", "/mode", self.put_mode),
            ("DELETE", "/mode", self.delete_mode),
        )
        for method, path, handler in settings:
            routes.add(method, path, _about_subject(handler))
            routes.add(method, f"{path}/{{subject}}", _about_subject(handler))
        versions = "/compatibility/subjects/{subject}/versions"
        for method, path, plain in (
            ("POST", versions, self.test_all),
            ("POST", f"{versions}/{{version}}", self.test_one),
            ("GET", "/contexts", self.list_contexts),
            ("DELETE", "/contexts/{context}", self.delete_context),
            ("GET", "/", self.root),
            ("POST", "/", self.root),
            ("GET", "/v1/metadata/id", self.server_id),
            ("GET", "/v1/metadata/version", self.server_version),
            ("GET", "/v1/metadata/deployment", self.server_deployment),
        ):
            routes.add(method, path, plain)

    # Config

    async def get_config(self, request: Request, subject: str | None) -> Response:
        """Return a config: that which was set, or with defaultToGlobal that which counts."""
        state = await self._registry.fresh()
        if request.flag("defaultToGlobal"):
            return answer(request, config_in_scope(state, subject))
        config = own_config(state, subject)
        if config is None:
            raise errors.no_subject_config(subject or "")
        return answer(request, config)

    async def put_config(self, request: Request, subject: str | None) -> Response:
        """Change some fields of a config; the answer is all of it."""
        changes = read_config(body_of(request))
        _check_name(subject)
        config = await self._registry.change(lambda state: decisions.update_config(state, subject, changes))
        shown = {"compatibility" if name == "compatibilityLevel" else name: config[name] for name in config}
        return answer(request, shown)

    async def delete_config(self, request: Request, subject: str | None) -> Response:
        """Remove a config; the answer is what it was."""
        return answer(
            request, await self._registry.change(lambda state: decisions.delete_config(state, subject))
        )

    # Mode

    async def get_mode(self, request: Request, subject: str | None) -> Response:
        """Return a mode: that which was set, or with defaultToGlobal that which counts."""
        state = await self._registry.fresh()
        is_global = request.flag("defaultToGlobal")
        mode = mode_in_scope(state, subject) if is_global else own_mode(state, subject)
        if mode is None:
            raise errors.no_subject_mode(subject)
        return answer(request, {"mode": mode})

    async def put_mode(self, request: Request, subject: str | None) -> Response:
        """Set a mode."""
        mode = text(body_of(request).get("mode"), "mode")
        _check_name(subject)
        if mode is not None and mode.upper() not in decisions.MODES:
            raise errors.invalid_mode()
        if mode == "FORWARD" and (subject is None or parse_subject(subject).context != ".__GLOBAL"):
            raise errors.invalid_mode("Forward mode only supported on global level")
        force = request.flag("force")
        await self._registry.change(
            lambda state: decisions.set_mode(state, subject, mode and mode.upper(), force=force)
        )
        return answer(request, {"mode": mode})

    async def delete_mode(self, request: Request, subject: str | None) -> Response:
        """Remove a mode; the answer is what it was."""
        recursive = request.flag("recursive")
        return answer(
            request,
            await self._registry.change(
                lambda state: decisions.delete_mode(state, subject, recursive=recursive)
            ),
        )

    # Compatibility

    async def test_all(self, request: Request) -> Response:
        """Return whether a schema is compatible with the versions of a subject."""
        return await self._test(request, None)

    async def test_one(self, request: Request) -> Response:
        """Return whether a schema is compatible with one version."""
        return await self._test(request, version_of(request.params["version"]))

    async def _test(self, request: Request, version: int | None) -> Response:
        verbose = request.flag("verbose")
        wanted = register_request(request)
        subject = found_subject(request, self._registry.state)
        check_references(request, subject, wanted.references)
        try:
            messages = await self._registry.test_compatibility(
                subject, wanted, version, normalize=request.flag("normalize")
            )
        except errors.RegistryError as error:
            if error.code != 42201 or not verbose:
                raise
            messages = [error.message]
        shown: Json = {"is_compatible": not messages}
        if verbose:
            shown["messages"] = messages
        return answer(request, shown)

    # Contexts and the server

    async def list_contexts(self, request: Request) -> Response:
        """Return the names of the contexts."""
        state = await self._registry.fresh()
        prefix = request.query.get("contextPrefix", "")
        found = [each for each in state.all_contexts() if each.startswith(prefix)]
        return answer(request, page(request, found))

    async def delete_context(self, request: Request) -> Response:
        """Forget a context without subjects, by its name as it is listed or with colons."""
        try:
            context = normalize_context(request.params["context"])
        except ValueError as error:
            raise HttpError(400, 400, str(error)) from None
        await self._registry.change(lambda state: decisions.delete_context(state, context))
        return Response(status=204)

    async def root(self, request: Request) -> Response:
        """Return an empty response, for health checks."""
        return answer(request, {})

    async def server_id(self, request: Request) -> Response:
        """Return which cluster the schemas are of."""
        clusters = {"kafka-cluster": self._cluster_id(), "schema-registry-cluster": GROUP_ID}
        return answer(request, {"scope": {"path": [], "clusters": clusters}, "id": ""})

    async def server_version(self, request: Request) -> Response:
        """Return our version."""
        return answer(request, {"version": __version__, "commitId": "ottla"})

    async def server_deployment(self, request: Request) -> Response:
        """Return the attributes of the cluster's location: none."""
        return answer(request, {"attributes": []})


def _about_subject(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that receives the subject of the path; None stands for all subjects."""

    async def handle(request: Request) -> Response:
        given = parse_subject(request.params.get("subject", ""))
        return await handler(request, None if given.is_default_context else str(given))

    return handle


def _policy(name: str | None) -> str | None:
    """Return a compatibility policy; an unknown one is none, as with Confluent's registry."""
    policy = None if name is None else name.upper()
    if policy == "LOGICAL":  # to accept it would promise checks that are not made
        raise errors.RegistryError(42203, "The compatibility policy LOGICAL is not supported")
    return policy if policy in POLICIES else None


def _check_name(subject: str | None) -> None:
    if subject is not None and not is_valid(subject, for_config=True):
        raise errors.invalid_subject(subject)


def read_config(body: Json) -> Json:
    """Return the fields of a config that a request changes; None unsets one."""
    changes: dict[str, Any] = {}
    for name in ("compatibility", "compatibilityLevel"):
        if name in body:
            level = text(body[name], name)
            if level is not None and level.upper() not in LEVELS:
                raise errors.invalid_level()
            changes["compatibilityLevel"] = level and level.upper()
    if "compatibilityPolicy" in body:
        changes["compatibilityPolicy"] = _policy(text(body["compatibilityPolicy"], "compatibilityPolicy"))
    for name in FLAGS:
        if name in body:
            if body[name] is not None and not isinstance(body[name], bool):
                raise malformed(f"{name} is not a boolean")
            changes[name] = body[name]
    for name in NAMES:
        if name in body:
            changes[name] = text(body[name], name)
    for name in ("defaultMetadata", "overrideMetadata"):
        if name in body:
            changes[name] = read_metadata(body[name])
    for name in ("defaultRuleSet", "overrideRuleSet"):
        if name in body:
            changes[name] = read_rule_set(body[name])
    return changes
