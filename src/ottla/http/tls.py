"""The TLS side of an HTTP server: its certificate, and who may sign its clients' certificates."""

from __future__ import annotations

import ssl
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files."""

    certificate: str
    """The server's certificate, with the chain up to its authority."""
    key: str | None = None
    """Its key, if it is not in the same file."""
    password: str | None = None
    client_ca: str | None = None
    """Who may sign the certificates of clients; without it, clients show none."""
    requires_client_certificate: bool = False


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of a server; OSError or ssl.SSLError if a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key, files.password)
    if files.client_ca is not None:
        context.load_verify_locations(files.client_ca)
        required = files.requires_client_certificate
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def client_context(ca_file: str | None, files: TlsFiles | None = None) -> ssl.SSLContext:
    """Return the context of a client of such servers; `files` has the certificate that it shows."""
    context = ssl.create_default_context(cafile=ca_file)
    if files is not None:
        context.load_cert_chain(files.certificate, files.key, files.password)
    return context
