"""Finds what `$ref` points to: in the schema and in its references, never on the network or the disk."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urljoin, urlsplit

from ottla.registry.formats.json_text import Json
from ottla.registry.formats.limits import InvalidSchema

_DRAFTS = {
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}


def draft_of(url: Json) -> int:
    """Return the draft that `$schema` names; 7, if it names none that is known."""
    return _DRAFTS.get(_address(url), 7) if isinstance(url, str) else 7


def _address(url: str) -> str:
    return url.split("#", 1)[0].removeprefix("http://").removeprefix("https://").rstrip("/")


class Resolver:
    """Knows every subschema of a closure of documents by its address."""

    def __init__(self, root: Json, references: Mapping[str, Json], id_keyword: str) -> None:
        self._id_keyword = id_keyword
        self._bases: dict[int, str] = {}
        self._documents: dict[str, Json] = {}
        own_id = root.get(id_keyword) if isinstance(root, dict) else None
        self.base = join("", own_id) if isinstance(own_id, str) else ""
        self._index(root, self.base)
        self._documents[""] = self._documents[self.base] = root
        for name, document in references.items():
            address = join(self.base, name)
            self._index(document, address)
            self._documents[address] = self._documents[name] = document

    def _index(self, document: Json, base: str) -> None:
        """Note the base address of every object, and every object that has an address of its own."""
        waiting = [(document, base)]
        while waiting:
            node, base = waiting.pop()
            if isinstance(node, list):
                waiting.extend((item, base) for item in node)
            if not isinstance(node, dict):
                continue
            own_id = node.get(self._id_keyword)
            if isinstance(own_id, str):
                address = join(base, own_id)
                self._documents.setdefault(address, node)
                base = address if not own_id.startswith("#") else base
            self._bases[id(node)] = base
            for keyword in ("$anchor", "$dynamicAnchor"):
                anchor = node.get(keyword)
                if isinstance(anchor, str):
                    self._documents.setdefault(f"{base.split('#', 1)[0]}#{anchor}", node)
            waiting.extend((value, base) for value in node.values())

    def find(self, reference: str, user: dict[str, Json]) -> Json | None:
        """Return the schema that a `$ref` in the object `user` points to; None for a draft's meta-schema."""
        base = self._bases.get(id(user), self.base)
        address = join(base, reference)
        if _address(address) in _DRAFTS:
            return None
        for candidate in (address, reference):
            found = self._lookup(candidate, base)
            if found is not None:
                return found
        raise InvalidSchema(f"Unresolved $ref '{reference}'")

    def _lookup(self, address: str, base: str) -> Json | None:
        if address in self._documents:
            return self._documents[address]
        url, _, fragment = address.partition("#")
        document = self._documents.get(url)
        if document is None and not url:
            document = self._documents.get(base.split("#", 1)[0])
        if document is None or not fragment:
            return document
        return _pointed(document, unquote(fragment)) if fragment.startswith("/") else None


def _pointed(document: Json, pointer: str) -> Json | None:
    root = document
    for number, token in enumerate(pointer.split("/")[1:]):
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            if token not in document and number == 0 and token == "$defs":
                document = root.get("definitions")
            else:
                document = document.get(token)
                if document is None and number == 1 and pointer.startswith("/$defs/"):
                    definitions = root.get("definitions")
                    document = definitions.get(token) if isinstance(definitions, dict) else None
        elif isinstance(document, list):
            document = document[int(token)] if token.isdecimal() and int(token) < len(document) else None
        else:
            return None
    return document


def join(base: str, reference: str) -> str:
    """Resolve a reference against a base address, whatever the scheme."""
    if not base or urlsplit(reference).scheme:
        return reference.removeprefix("./") if not base else reference
    if reference.startswith("#"):
        return base.split("#", 1)[0] + reference
    scheme, separator, rest = base.partition("://")
    if not separator:
        return urljoin(base, reference)
    return scheme + urljoin(f"http{separator}{rest}", reference).removeprefix("http")
