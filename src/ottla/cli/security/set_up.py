"""The files of `ottla security init`: certificates, the broker's configuration, and those of clients."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.cli.security.certificates import DevelopmentCa
from ottla.cli.support.problem_kinds import BAD_PROFILE
from ottla.cli.support.problems import Problem
from ottla.cli.support.profiles import Profile, read_profiles, write_profiles

CA, BROKER, CLIENT = "ca.pem", "broker.pem", "client.pem"
CA_KEY, SERVER_FILE, CLIENT_FILE = "ca.key", "server.properties", "client.properties"
FILES = (CA, CA_KEY, BROKER, CLIENT, SERVER_FILE, CLIENT_FILE)
MECHANISM = "SCRAM-SHA-512"
BROKER_USER = "broker"
LISTENER = "SASL_SSL"
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@dataclass(frozen=True, slots=True)
class SetUp:
    """What is set up: an administrator, one TLS listener with SCRAM, and an authorizer."""

    folder: Path
    hosts: tuple[str, ...]
    """Names and addresses of the brokers; the first is advertised."""
    port: int
    admin: str
    admin_password: str
    broker_password: str
    token_secret: str
    needs_certificate: bool
    """Whether clients also need a certificate (mutual TLS)."""

    def write(self, ca: DevelopmentCa) -> None:
        """Write all files; those with secrets are readable by their owner only."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(self.folder / CA_KEY, ca.key_pem)
        write_secret(self.folder / BROKER, ca.broker_pem(BROKER_USER, self.hosts) + ca.certificate_pem)
        write_secret(self.folder / CLIENT, ca.client_pem(self.admin) + ca.certificate_pem)
        (self.folder / CA).write_bytes(ca.certificate_pem)
        write_secret(self.folder / SERVER_FILE, properties_text(self.server_keys()).encode())
        write_secret(self.folder / CLIENT_FILE, properties_text(self.java_keys()).encode())

    def server_keys(self) -> dict[str, str]:
        """Return the configuration of every broker."""
        jaas = f'{JAAS} username="{BROKER_USER}" password="{self.broker_password}";'
        own = f"listener.name.{LISTENER.lower()}."
        keys = {
            "listeners": f"{LISTENER}://{self.hosts[0]}:{self.port}",
            "inter.broker.listener.name": LISTENER,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.folder / BROKER),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / CA),
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"{own}{MECHANISM.lower()}.sasl.jaas.config": jaas,
            "ottla.bootstrap.scram": " ".join(
                f"{MECHANISM}=[name={name},password={password}]"
                for name, password in ((self.admin, self.admin_password), (BROKER_USER, self.broker_password))
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{self.admin};User:{BROKER_USER}",
            "delegation.token.secret.key": self.token_secret,
        }
        if self.needs_certificate:
            keys[f"{own}ssl.client.auth"] = "required"
        return keys

    def profile(self) -> Profile:
        """Return the options of the administrator, for profiles and Python clients."""
        options = {
            "bootstrap.servers": f"{self.hosts[0]}:{self.port}",
            "security.protocol": LISTENER,
            "ssl.ca.location": str(self.folder / CA),
            "sasl.mechanism": MECHANISM,
            "sasl.username": self.admin,
            "sasl.password": self.admin_password,
        }
        if self.needs_certificate:
            options["ssl.certificate.location"] = str(self.folder / CLIENT)
            options["ssl.key.location"] = str(self.folder / CLIENT)
        return options

    def java_keys(self) -> dict[str, str]:
        """Return the same for Java clients, Kafka's tools and Spark."""
        keys = {
            "bootstrap.servers": f"{self.hosts[0]}:{self.port}",
            "security.protocol": LISTENER,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / CA),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{JAAS} username="{self.admin}" password="{self.admin_password}";',
        }
        if self.needs_certificate:
            keys["ssl.keystore.type"] = "PEM"
            keys["ssl.keystore.location"] = str(self.folder / CLIENT)
        return keys


def add_profile(path: Path, name: str, profile: Mapping[str, str]) -> None:
    """Add a profile to the file, which becomes readable by its owner only; a new file has it as default."""
    profiles, default = read_profiles(path)
    if name in profiles:
        raise Problem(
            f"{path} has a profile {name!r} already",
            "choose another name:  --profile NAME",
            f"or remove [{name}] from the file",
            kind=BAD_PROFILE,
        )
    write_profiles(path, {**profiles, name: dict(profile)}, default if profiles else name)


def write_secret(path: Path, content: bytes) -> None:
    """Replace a file by one that only its owner can read."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def existing_files(folder: Path) -> Sequence[str]:
    """Return the files that would be replaced."""
    return [name for name in FILES if (folder / name).exists()]


def properties_text(keys: Mapping[str, str]) -> str:
    """Return keys and values as a Java .properties file."""
    return "".join(f"{key}={value.replace(chr(92), chr(92) * 2)}\n" for key, value in keys.items())
