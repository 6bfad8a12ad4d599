"""An OpenID provider in a thread of the test; whoever comes is logged in as alice."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, quote, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from ottla.common.clock import SystemClock


class OpenIdProvider:
    """Answers like an OpenID provider; `claims` are put over those of the token."""

    def __init__(self) -> None:
        self.key = ECKey.generate_key("P-256", parameters={"kid": "one", "use": "sig"})
        self.claims: dict[str, Any] = {}
        self.nonce = self.challenge = ""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/authorize?"):
                    self.send_response(302)
                    self.send_header("location", provider.authorized(self.path))
                    self.end_headers()
                else:
                    self._send(provider.document(self.path))

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                self._send(provider.token(form))

            def _send(self, body: Any) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    def authorized(self, path: str) -> str:
        """Return where a person who has logged in at the provider is sent."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        self.nonce, self.challenge = query["nonce"], query["code_challenge"]
        return f"{query['redirect_uri']}?code=c&state={quote(query['state'])}"

    def document(self, path: str) -> Any:
        if path == "/keys":
            return KeySet([self.key]).as_dict(private=False)
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def token(self, form: dict[str, list[str]]) -> Any:
        digest = hashlib.sha256(form["code_verifier"][0].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.challenge
        now = SystemClock().wall_ms() // 1000
        claims = {
            "iss": self.issuer,
            "aud": "console",
            "sub": "7",
            "preferred_username": "alice",
            "roles": ["ottla-operator"],
            "nonce": self.nonce,
            "exp": now + 60,
            **self.claims,
        }
        return {"id_token": jwt.encode({"alg": "ES256", "kid": "one"}, claims, self.key)}
