"""Login by OpenID Connect, at a provider in a thread of the test."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from ottla.common.clock import SystemClock
from ottla.console.access.oidc import Oidc, OidcError, OidcOptions
from ottla.console.access.roles import OPERATOR

BACK = "http://127.0.0.1:8080/login/oidc/back"


class Provider:
    """Answers like an OpenID provider; `claims` are put over those of the token."""

    def __init__(self) -> None:
        self.key = ECKey.generate_key("P-256", parameters={"kid": "one", "use": "sig"})
        self.claims: dict[str, Any] = {}
        self.nonce = self.challenge = ""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
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


@pytest.fixture
def provider() -> Iterator[Provider]:
    running = Provider()
    thread = threading.Thread(target=running.server.serve_forever)
    thread.start()
    yield running
    running.server.shutdown()
    thread.join()
    running.server.server_close()


def log_in(provider: Provider, **claims: Any) -> tuple[str, Any]:
    oidc = Oidc(OidcOptions(provider.issuer, "console"), SystemClock())
    started = oidc.start(BACK)
    query = {name: values[0] for name, values in parse_qs(urlsplit(started.url).query).items()}
    assert query["redirect_uri"] == BACK
    assert query["state"] == started.state
    provider.nonce, provider.challenge, provider.claims = query["nonce"], query["code_challenge"], claims
    return oidc.finish("code", BACK, started.nonce, started.verifier)


def test_who_comes_back_is_known(provider: Provider) -> None:
    assert log_in(provider) == ("alice", OPERATOR)


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"nonce": "other"}, "another login"),
        ({"iss": "https://evil.example.org"}, "another login"),
        ({"aud": "other"}, "another application"),
        ({"exp": 1}, "expired"),
        ({"exp": "soon"}, "expired"),
        ({"exp": None}, "expired"),
        ({"sub": None}, "whom it is for"),
    ],
)
def test_tokens_that_are_not_for_us_are_refused(
    provider: Provider, claims: dict[str, Any], says: str
) -> None:
    with pytest.raises(OidcError, match=says):
        log_in(provider, **claims)


def test_a_forged_signature_is_refused(provider: Provider) -> None:
    published = provider.key
    oidc = Oidc(OidcOptions(provider.issuer, "console"), SystemClock())
    started = oidc.start(BACK)
    query = {name: values[0] for name, values in parse_qs(urlsplit(started.url).query).items()}
    provider.nonce, provider.challenge = query["nonce"], query["code_challenge"]
    keys = KeySet([published]).as_dict(private=False)
    provider.document = lambda path, before=provider.document: keys if path == "/keys" else before(path)  # type: ignore[method-assign,misc]
    provider.key = ECKey.generate_key("P-256", parameters={"kid": "one", "use": "sig"})
    with pytest.raises(OidcError, match="cannot be trusted"):
        oidc.finish("code", BACK, started.nonce, started.verifier)


@pytest.mark.parametrize("host", ["issuer.example.org", "127.0.0.1.example.org", "localhost@example.org"])
def test_a_provider_without_https_elsewhere_is_refused(host: str) -> None:
    with pytest.raises(OidcError, match="not https"):
        Oidc(OidcOptions(f"http://{host}", "console"), SystemClock()).start(BACK)
