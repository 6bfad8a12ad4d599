"""An identity provider over https."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from tests.integration.secure_stage import Certificates, IdentityProvider


class Endpoint:
    """Publishes keys, and gives tokens of one user to the client `cluster`, whose secret is `hush`."""

    def __init__(self, certificates: Certificates, provider: IdentityProvider, user: str) -> None:
        endpoint = self
        self.asked: list[dict[str, list[str]]] = []
        expected = "Basic " + base64.b64encode(b"cluster:hush").decode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, provider.file.read_bytes())

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                endpoint.asked.append(form)
                if self.headers["Authorization"] != expected:
                    self.answer(401, b"{}")
                    return
                token = provider.token(user)
                self.answer(200, json.dumps({"access_token": token, "expires_in": 300}).encode())

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.sign("provider"))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_port}"


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[Endpoint]:
    thread = threading.Thread(target=endpoint.server.serve_forever)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.server.shutdown()
        endpoint.server.server_close()
        thread.join()
