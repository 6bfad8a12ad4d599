"""TLS contexts from Kafka's `ssl.*` keys: of a listener, and of connections to other brokers."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ottla.common.config.declaration import ConfigError
from ottla.common.tls_stores import KeyPair, StoreSettings, read_authorities, read_key_pair

VERIFY = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
TLS_1_3_SUITES = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"}
)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The `ssl.*` keys of one listener."""

    keystore: StoreSettings
    truststore: StoreSettings
    client_auth: str = "none"
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] | None = None
    checks_hostname: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read."""
        return tuple(each for each in (self.keystore.location, self.truststore.location) if each is not None)


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener; ConfigError if the stores cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, settings)
    if not load_key_pair(context, settings.keystore):
        raise ConfigError(settings.keystore.key, "is missing: a TLS listener needs a certificate")
    if settings.client_auth != "none":
        authorities = read_authorities(settings.truststore)
        if authorities is None:
            raise ConfigError(
                settings.truststore.key,
                f"is missing: ssl.client.auth={settings.client_auth} needs the authorities of the clients",
            )
        _load_authorities(context, settings.truststore, authorities)
        context.verify_mode = VERIFY[settings.client_auth]
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context for connections to other brokers."""
    context = ssl.create_default_context()
    authorities = read_authorities(settings.truststore)
    if authorities is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_authorities(context, settings.truststore, authorities)
    _set_versions(context, settings)
    context.check_hostname = settings.checks_hostname
    load_key_pair(context, settings.keystore)
    return context


@dataclass(frozen=True, slots=True)
class CertificateNames:
    """Whom a certificate is for, as `getpeercert()` gives it to others."""

    subject: tuple[tuple[tuple[str, str], ...], ...]
    hosts: frozenset[tuple[str, str]]
    """The subject alternative names, with their kinds."""

    def check_change(self, new: CertificateNames, *, allow_subject: bool, allow_hosts: bool) -> None:
        """Raise ConfigError if `new` may not take the place of this certificate."""
        if not allow_subject and new.subject != self.subject:
            raise ConfigError(
                "ssl.keystore.location",
                f"the new certificate is for {new.subject}, the old one for {self.subject}; "
                "ssl.allow.dn.changes=true allows that",
            )
        if not allow_hosts and (lost := sorted(value for _, value in self.hosts - new.hosts)):
            raise ConfigError(
                "ssl.keystore.location",
                f"the new certificate is not for {', '.join(lost)}, as the old one is; "
                "ssl.allow.san.changes=true allows that",
            )


def certificate_names(settings: TlsSettings) -> CertificateNames | None:
    """Return whom our own certificate is for; None without one."""
    pair = read_key_pair(settings.keystore)
    if pair is None:
        return None
    with _secret_file(_first_certificate(pair)) as path:
        found = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]
    return CertificateNames(found["subject"], frozenset(found.get("subjectAltName", ())))


def own_certificate(settings: TlsSettings) -> bytes | None:
    """Return our own certificate in DER, as others see it; None without one."""
    pair = read_key_pair(settings.keystore)
    return None if pair is None else ssl.PEM_cert_to_DER_cert(_first_certificate(pair))


def _first_certificate(pair: KeyPair) -> str:
    return pair.chain[: pair.chain.index("-----END") + len("-----END CERTIFICATE-----")]


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = sorted(VERSIONS[each] for each in settings.protocols)
    if not versions:
        raise ConfigError("ssl.enabled.protocols", "names no version of TLS")
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if settings.cipher_suites:
        _set_ciphers(context, settings.cipher_suites)


def _set_ciphers(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    """Allow these suites only.

    Python before 3.15 cannot choose among those of TLS 1.3: OpenSSL's own configuration does.
    """
    newer = TLS_1_3_SUITES & set(suites)
    offered = {each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.3"}
    if newer and (unnamed := offered - newer):
        raise ConfigError(
            "ssl.cipher.suites",
            f"OpenSSL accepts {', '.join(sorted(unnamed))} here, too: add it, or start the broker with "
            f"OPENSSL_CONF=FILE, where FILE has Ciphersuites = {':'.join(sorted(newer))} (docs/security.md)",
        )
    older = [_openssl_name(each) for each in suites if each not in TLS_1_3_SUITES]
    if not newer:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    for name, given in zip(older, (each for each in suites if each not in TLS_1_3_SUITES), strict=True):
        try:
            context.set_ciphers(name)
        except ssl.SSLError:
            raise ConfigError("ssl.cipher.suites", f"there is no cipher suite {given!r}") from None
    context.set_ciphers(":".join(older))


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite: TLS_RSA_WITH_AES_128_GCM_SHA256 is AES128-GCM-SHA256."""
    if not suite.startswith("TLS_"):
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "").replace("POLY1305_SHA256", "POLY1305")
    name = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return name.replace("_", "-")


def load_key_pair(context: ssl.SSLContext, store: StoreSettings) -> bool:
    """Use the key and the certificates of a store; return False if none is set."""
    pair = read_key_pair(store)
    if pair is None:
        return False
    with _secret_file(pair.private_key + pair.chain) as path:
        try:
            # An empty password instead of none: OpenSSL would ask for one on the terminal.
            context.load_cert_chain(path, password=pair.password or "")
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            hint = "; is ssl.key.password right?" if "ENCRYPTED" in pair.private_key else ""
            raise ConfigError(
                store.key, f"the key and its certificate cannot be used: {reason}{hint}"
            ) from None
    return True


def _load_authorities(context: ssl.SSLContext, store: StoreSettings, authorities: str) -> None:
    try:
        context.load_verify_locations(cadata=authorities)
    except ssl.SSLError as error:
        raise ConfigError(store.key, f"the certificates cannot be used: {error.reason or error}") from None


@contextmanager
def _secret_file(text: str) -> Iterator[str]:
    """Have a file while OpenSSL, which takes keys from files only, reads it: in memory, on Linux."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile("w", prefix="ottla-key-") as file:  # readable by its owner only
            file.write(text)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
