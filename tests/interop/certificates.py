"""Certificates for tests, made with `openssl`: an authority, and whoever it signs."""

from __future__ import annotations

import subprocess
from pathlib import Path

ALT_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class Authority:
    """Signs certificates; everything lies as PEM files in one folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        self._openssl(
            ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"],
            ["-subj", f"/CN={name}", "-keyout", self._key, "-out", self.certificate],
        )

    def sign(self, name: str) -> tuple[Path, Path]:
        """Return the certificate and the key (PKCS 8) of a new name."""
        key, request, certificate = (self._folder / f"{name}{end}" for end in (".key", ".csr", ".pem"))
        self._openssl(
            ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"],
            ["-subj", f"/CN={name}", "-keyout", key, "-out", request],
        )
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(ALT_NAMES)
        self._openssl(
            ["x509", "-req", "-days", "2", "-in", request, "-CA", self.certificate, "-CAkey", self._key],
            ["-CAcreateserial", "-extfile", extensions, "-out", certificate],
        )
        return certificate, key

    def key_store(self, name: str) -> Path:
        """Return a new name's key and certificates in one file, as Kafka wants them."""
        certificate, key = self.sign(name)
        store = self._folder / f"{name}.store.pem"
        store.write_text(key.read_text() + certificate.read_text() + self.certificate.read_text())
        return store

    @staticmethod
    def _openssl(*words: list[str | Path]) -> None:
        command = ["openssl", *(str(word) for some in words for word in some)]
        subprocess.run(command, check=True, capture_output=True)
