"""Style sheets and scripts: read once, cached by browsers until they change."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes

from ottla.console.render import STATIC
from ottla.http.app import Request, Response
from ottla.http.errors import HttpError

SERVED = (".css", ".js", ".svg", ".png", ".ico")


class Assets:
    """The files of static/, by name; their address carries a version, so they are cached for a year."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, bytes, str]] = {}
        digest = hashlib.sha256()
        for path in sorted(STATIC.rglob("*")):
            if path.suffix in SERVED:
                content = path.read_bytes()
                digest.update(content)
                kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
                if kind.startswith("text/"):
                    kind += "; charset=utf-8"
                self._files[path.name] = (content, gzip.compress(content, mtime=0), kind)
        self.version = digest.hexdigest()[:12]

    async def serve(self, request: Request) -> Response:
        """Answer with a file."""
        found = self._files.get(request.params["file"])
        if found is None:
            raise HttpError(404)
        content, packed, kind = found
        headers: tuple[tuple[bytes, bytes], ...] = (
            (b"cache-control", b"public, max-age=31536000, immutable"),
            (b"vary", b"accept-encoding"),
        )
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, 200, kind, (*headers, (b"content-encoding", b"gzip")))
        return Response(content, 200, kind, headers)
