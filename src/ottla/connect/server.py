"""One worker: herder, engine and HTTP server, started and stopped together."""

from __future__ import annotations

from ottla.connect.herder.herder import Herder
from ottla.connect.herder.requests import Requests
from ottla.connect.options import WorkerOptions, check_settings
from ottla.connect.plugins import Plugins
from ottla.connect.rest.access import ConnectorAccess
from ottla.connect.rest.app import make_app
from ottla.connect.rest.forwarding import for_others
from ottla.http.app import HttpApp
from ottla.http.limits import HttpLimits
from ottla.http.origins import hosts_without_login
from ottla.http.security import Acls, HttpSecurity, secure
from ottla.http.server import HttpServer
from ottla.http.service import HttpService


class ConnectWorker(HttpService):
    """A worker; use it as `async with ConnectWorker(options)`."""

    def __init__(
        self,
        options: WorkerOptions,
        limits: HttpLimits | None = None,
        security: HttpSecurity | None = None,
    ) -> None:
        check_settings(options.settings)
        self.options = options
        self.herder = Herder(options, Plugins.load(options.engine.plugin_path))
        self._limits = limits or HttpLimits(request_timeout_s=120)
        self._security = security or HttpSecurity()
        super().__init__(HttpServer(options.host, options.port, self._limits, self._security.tls))

    @property
    def advertised_url(self) -> str:
        """Where other workers reach it."""
        scheme, _, address = self._http.url.partition("://")
        host, _, port = address.rpartition(":")
        settings = self.options.settings
        host = settings.get("rest.advertised.host.name", host)
        return f"{scheme}://{host}:{settings.get('rest.advertised.port', port)}"

    async def _start(self) -> None:
        """Listen, and join the group."""
        await self._http.serve(await self._app())
        await self.herder.start(self.advertised_url)
        self._parts.push_async_callback(self.herder.stop)

    async def _app(self) -> HttpApp:
        security = self._security
        access = ConnectorAccess()

        def decided(acls: Acls) -> ConnectorAccess:
            access.acls = acls
            return access

        app = make_app(Requests(self.herder), self._limits, access, security.peer_tls)
        await secure(app, security, self.options.client, decided, self._parts, "connect")
        if app.authenticate is None:
            advertised = self.options.settings.get("rest.advertised.host.name", "")
            app.hosts = hosts_without_login(self.options.host, [advertised])
            app.hosts_hint = ": see rest.advertised.host.name"
        else:
            app.authenticate = for_others(app.authenticate, security.super_users)
        return app
