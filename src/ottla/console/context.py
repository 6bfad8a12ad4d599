"""The context of a view, an action or a stream: the request, its session and the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from ottla.client.admin import AsyncAdmin
from ottla.console.access.roles import Role
from ottla.console.access.sessions import Session
from ottla.console.clusters.live import LiveCluster
from ottla.console.table import UserError
from ottla.http.app import Request

if TYPE_CHECKING:
    from ottla.console.console import Console


@dataclass(slots=True)
class Context:
    """One request to one cluster."""

    console: Console
    request: Request
    session: Session
    live: LiveCluster

    @property
    def admin(self) -> AsyncAdmin:
        """The admin client, with the credentials that apply."""
        return self.live.admin

    @property
    def role(self) -> Role:
        """What the person may do in this cluster."""
        return self.session.role_in(self.live.name)

    @property
    def params(self) -> Mapping[str, str]:
        """The parameters of the path."""
        return self.request.params

    def query(self, name: str, default: str = "") -> str:
        """Return a query parameter."""
        return self.request.query.get(name, default).strip()

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**62) -> int:
        """Return a query parameter that is a whole number."""
        given = self.query(name)
        if not given:
            return default
        try:
            return min(max(int(given), least), most)
        except ValueError:
            raise UserError(f"{name} is a whole number, not {given!r}", status=400) from None

    def url(self, *segments: object, **query: object) -> str:
        """Return the address of a page of this cluster."""
        return page_url(self.live.name, *segments, **query)


def page_url(cluster: str, *segments: object, **query: object) -> str:
    """Return the address of a page of a cluster; names are encoded."""
    path = "/c/" + "/".join(quote(str(each), safe="") for each in (cluster, *segments))
    given = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items() if value != "")
    return f"{path}?{given}" if given else path
