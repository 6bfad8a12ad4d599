"""/dek-registry/v1: keys that encrypt keys, and the encrypted keys of subjects."""

from __future__ import annotations

import re
from typing import Any

from ottla.http.app import Request, Response
from ottla.http.routing import Handler, Routes
from ottla.registry.contracts import malformed
from ottla.registry.entities import Json
from ottla.registry.keys import decisions
from ottla.registry.keys.decisions import invalid, not_found
from ottla.registry.keys.records import ALGORITHMS, DEFAULT_ALGORITHM, Dek, DekId, Kek, shown
from ottla.registry.keys.state import KeyState
from ottla.registry.rest.requests import answer, body_of, integer, page, text, version_of
from ottla.registry.scopes import resolve_alias_of_keys
from ottla.registry.service import Registry
from ottla.registry.state_store import StateStore

MAX_NAME = 256
_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
ROOT = "/dek-registry/v1/keks"
ONE_KEK = f"{ROOT}/{{name}}"
DEKS = f"{ONE_KEK}/deks"
ONE_SUBJECT = f"{DEKS}/{{subject}}"
VERSION = f"{ONE_SUBJECT}/versions/{{version}}"


class KeyRoutes:
    """Serves KEKs and DEKs."""

    def __init__(self, keys: StateStore[KeyState], registry: Registry) -> None:
        self._keys = keys
        self._registry = registry

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        for method, path, handler in (
            ("GET", ROOT, self.list_keks),
            ("POST", ROOT, self.create_kek),
            ("GET", ONE_KEK, self.get_kek),
            ("PUT", ONE_KEK, self.update_kek),
            ("DELETE", ONE_KEK, self.delete_kek),
            ("POST", f"{ONE_KEK}/undelete", self.undelete_kek),
            ("POST", f"{ONE_KEK}/test", self.test_kek),
            ("GET", DEKS, self.list_subjects),
            ("POST", DEKS, self.create_dek),
            ("GET", ONE_SUBJECT, self.get_dek),
            ("POST", ONE_SUBJECT, self.create_dek),
            ("DELETE", ONE_SUBJECT, self.delete_deks),
            ("POST", f"{ONE_SUBJECT}/undelete", self.undelete_deks),
            ("GET", f"{ONE_SUBJECT}/versions", self.list_versions),
            ("GET", VERSION, self.get_dek),
            ("DELETE", VERSION, self.delete_deks),
            ("POST", f"{VERSION}/undelete", self.undelete_deks),
        ):
            routes.add(method, path, self._of_alias(handler) if path.startswith(ONE_SUBJECT) else handler)

    def _of_alias(self, handler: Handler) -> Handler:
        """Return a handler that is given the subject that the one of the path is an alias for."""

        async def handle(request: Request) -> Any:
            subject = resolve_alias_of_keys(await self._registry.fresh(), request.params["subject"])
            request.check_allowed(subject)
            request.params["subject"] = subject
            return await handler(request)

        return handle

    async def list_keks(self, request: Request) -> Response:
        """Return the names of KEKs; with subjectPrefix, those that have DEKs of such subjects."""
        state = await self._keys.fresh()
        deleted = request.flag("deleted")
        prefixes = tuple(request.query.getlist("subjectPrefix"))
        if prefixes:
            names = {
                each.kek_name
                for each, dek in state.deks.items()
                if each.subject.startswith(prefixes) and (deleted or not dek.deleted)
            }
        else:
            names = {each for each in state.keks if state.kek(each, deleted=deleted) is not None}
        return answer(request, page(request, sorted(names)))

    async def get_kek(self, request: Request) -> Response:
        """Return a KEK."""
        return await self._show_kek(request, request.params["name"], deleted=request.flag("deleted"))

    async def _show_kek(self, request: Request, name: str, *, deleted: bool = True) -> Response:
        kek = (await self._keys.fresh()).kek(name, deleted=deleted)
        if kek is None:
            raise not_found(name)
        return answer(request, shown(kek))

    async def create_kek(self, request: Request) -> Response:
        """Create a KEK."""
        body = body_of(request)
        name = text(body.get("name"), "name") or ""
        if len(name) > MAX_NAME or not _NAME.fullmatch(name):
            raise invalid("name")
        kms_type, kms_key_id = text(body.get("kmsType"), "kmsType"), text(body.get("kmsKeyId"), "kmsKeyId")
        if not kms_type or not kms_key_id:
            raise invalid("kmsKeyId" if kms_type else "kmsType")
        kek = Kek(
            name,
            kms_type,
            kms_key_id,
            _props(body.get("kmsProps")),
            text(body.get("doc"), "doc"),
            bool(body.get("shared")),
            bool(body.get("deleted")),
        )
        await self._keys.change(lambda state: decisions.create_kek(state, kek))
        return await self._show_kek(request, name)

    async def update_kek(self, request: Request) -> Response:
        """Change a KEK."""
        name, body = request.params["name"], body_of(request)
        changes: Json = {each: body[each] for each in ("doc", "shared") if each in body}
        if "kmsProps" in body:
            changes["kmsProps"] = _props(body["kmsProps"])
        await self._keys.change(lambda state: decisions.update_kek(state, name, changes))
        return await self._show_kek(request, name)

    async def test_kek(self, request: Request) -> Response:
        """Check whether the registry can encrypt with a KEK."""
        name = request.params["name"]
        kek = (await self._keys.fresh()).kek(name)
        if kek is None:
            raise not_found(name)
        decisions.check_sharing(kek)
        return answer(request, shown(kek))

    async def delete_kek(self, request: Request) -> Response:
        """Delete a KEK."""
        name, permanent = request.params["name"], request.flag("permanent")
        await self._keys.change(lambda state: decisions.delete_kek(state, name, permanent=permanent))
        return Response(status=204)

    async def undelete_kek(self, request: Request) -> Response:
        """Bring a KEK back."""
        await self._keys.change(lambda state: decisions.undelete_kek(state, request.params["name"]))
        return Response(status=204)

    async def list_subjects(self, request: Request) -> Response:
        """Return the subjects that have DEKs of a KEK."""
        state, name, deleted = await self._keys.fresh(), request.params["name"], request.flag("deleted")
        if state.kek(name, deleted=deleted) is None:
            raise not_found(name)
        found = sorted({each.id.subject for each in state.deks_of(name, deleted=deleted)})
        return answer(request, page(request, found))

    async def list_versions(self, request: Request) -> Response:
        """Return the versions of a subject's DEKs."""
        state, name, deleted = await self._keys.fresh(), request.params["name"], request.flag("deleted")
        if state.kek(name, deleted=deleted) is None:
            raise not_found(name)
        deks = state.deks_of(name, request.params["subject"], _algorithm(request), deleted=deleted)
        return answer(request, page(request, [each.id.version for each in deks]))

    async def get_dek(self, request: Request) -> Response:
        """Return a DEK of a subject: a version, or the latest."""
        version = version_of(request.params.get("version", "latest"))
        dek = decisions.find_dek(
            await self._keys.fresh(),
            request.params["name"],
            request.params["subject"],
            _algorithm(request),
            version,
            deleted=request.flag("deleted"),
        )
        return answer(request, shown(dek))

    async def create_dek(self, request: Request) -> Response:
        """Keep a DEK that the client has encrypted."""
        body = body_of(request)
        subject = request.params.get("subject") or text(body.get("subject"), "subject")
        if not subject:
            raise invalid("subject")
        algorithm = _checked(text(body.get("algorithm"), "algorithm") or DEFAULT_ALGORITHM)
        version = integer(body.get("version"), "version", 1)
        dek_id = DekId(request.params["name"], subject, algorithm, version_of(str(version)))
        material = text(body.get("encryptedKeyMaterial"), "encryptedKeyMaterial")
        dek = Dek(dek_id, material, bool(body.get("deleted")))
        rewrap = request.flag("rewrap")
        await self._keys.change(lambda state: decisions.create_dek(state, dek, rewrap=rewrap))
        return answer(request, shown((await self._keys.fresh()).deks.get(dek_id, dek)))

    async def delete_deks(self, request: Request) -> Response:
        """Delete a version, or all versions, of a subject's DEKs."""
        place, permanent = _place(request), request.flag("permanent")
        await self._keys.change(lambda state: decisions.delete_deks(state, *place, permanent=permanent))
        return Response(status=204)

    async def undelete_deks(self, request: Request) -> Response:
        """Bring a version, or all versions, of a subject's DEKs back."""
        place = _place(request)
        await self._keys.change(lambda state: decisions.undelete_deks(state, *place))
        return Response(status=204)


def _place(request: Request) -> tuple[str, str, str, int | None]:
    given = request.params.get("version")
    version = None if given is None else version_of(given)
    return request.params["name"], request.params["subject"], _algorithm(request), version


def _algorithm(request: Request) -> str:
    return _checked(request.query.get("algorithm") or DEFAULT_ALGORITHM)


def _checked(algorithm: str) -> str:
    if algorithm not in ALGORITHMS:
        raise invalid("algorithm")
    return algorithm


def _props(value: Any) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise malformed("kmsProps is not an object")
    return {str(name): str(each) for name, each in value.items()}
